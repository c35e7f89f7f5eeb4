"""Plans that hold too much, in which what memory asks for runs again before its backward or goes to the host, and no
more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from solvers.errors import PlacementError
from solvers.evaluation.evaluate import MEMORY_SLACK
from solvers.evaluation.simulation import run
from solvers.pipelines.recomputation.choices import Choices, choices_of
from solvers.pipelines.recomputation.hosting import hostings
from solvers.pipelines.recomputation.program import Chosen, least_seconds
from solvers.plan.plan import Plan, Stage
from solvers.plan.regions import without_regions
from solvers.problem.problem import Problem

ROUNDS = 6
"""Simulations in which what runs again and goes to the host is fitted to the memory."""
TIGHTER = 1e-3
"""Of the memory, by how much more than it was too much a device is asked to hold less."""


class Fitted(NamedTuple):
    """plan: None if what it holds cannot be made to fit. longer_s: for each device, by how much a micro-batch takes
    longer, and bound_s: at least that of any choice."""

    plan: Plan | None
    longer_s: tuple[float, ...]
    bound_s: tuple[float, ...]


@dataclass
class _Group:
    """Devices that run the same stages. most_bytes: that those may hold, beside what is there whatever they choose."""

    devices: tuple[int, ...]
    stages: tuple[int, ...]
    choices: tuple[Choices, ...]
    most_bytes: float
    chosen: Chosen | None = None


def fitted(problem: Problem, plan: Plan) -> Fitted:
    """The plan with the least time on each device for what runs again and goes to the host so that it fits its memory;
    cuts and order stay.

    What stages offload already is forgotten first; where plans say which operators run again, so is what does, and a
    stage that recomputes as a whole (`Stage.recompute`) does no longer.
    """
    problem = without_regions(problem)
    plain = replace(plan, stages=tuple(_plain(problem, stage) for stage in plan.stages))
    count = len(problem.cluster)
    caps = [device.memory_bytes for device in problem.cluster.devices]
    try:
        peaks = run(problem, plain).peak_bytes().tolist()
    except PlacementError:
        return Fitted(None, (0.0,) * count, (0.0,) * count)
    full = {d for d, (peak, cap) in enumerate(zip(peaks, caps, strict=True)) if peak > cap * (1 + MEMORY_SLACK)}
    groups = [group for group in _groups(problem, plain) if not full.isdisjoint(group.devices)] if full else []
    for group in groups:
        held = sum(one.all_saved_bytes * one.in_flight for one in group.choices) + max(map(_working, group.choices))
        group.most_bytes = min(caps[d] - (peaks[d] - held) for d in group.devices)
    current = plain
    wrong = groups
    for _ in range(ROUNDS):
        for group in wrong:
            group.chosen = least_seconds(group.choices, group.most_bytes) if group.most_bytes > 0 else None
        if any(group.chosen is None for group in wrong):
            break
        current = _with(current, wrong)
        peaks = run(problem, current).peak_bytes().tolist()
        over = [max(peaks[d] - caps[d] for d in group.devices) for group in groups]
        wrong = [g for g, much in zip(groups, over, strict=True) if much > caps[g.devices[0]] * MEMORY_SLACK]
        if not wrong:
            break
        for group, much in zip(groups, over, strict=True):
            if group in wrong:
                group.most_bytes -= much + TIGHTER * caps[group.devices[0]]
    totals = [0.0] * count, [0.0] * count
    for group in groups:
        if group.chosen is not None:
            for device in group.devices:
                totals[0][device], totals[1][device] = group.chosen.seconds, group.chosen.bound_s
    return Fitted(None if wrong else current, tuple(totals[0]), tuple(totals[1]))


def _plain(problem: Problem, stage: Stage) -> Stage:
    if not problem.recompute_operators:
        return replace(stage, offload=())
    return replace(stage, recompute=False, regions=(), offload=())


def _working(choices: Choices) -> float:
    return float(max(choices.forward_working.max(initial=0.0), choices.backward_working.max(initial=0.0)))


def _groups(problem: Problem, plan: Plan) -> list[_Group]:
    """Devices that share stages, with all of these."""
    hosting = hostings(problem, plan)
    home: dict[int, int] = {}

    def root(device: int) -> int:
        while home.setdefault(device, device) != device:
            device = home[device]
        return device

    for stage in plan.stages:
        for device in stage.devices[1:]:
            home[root(device)] = root(stage.devices[0])
    stages: dict[int, list[int]] = {}
    for index, stage in enumerate(plan.stages):
        stages.setdefault(root(stage.devices[0]), []).append(index)
    devices: dict[int, list[int]] = {}
    for device in plan.devices_used():
        devices.setdefault(root(device), []).append(device)
    return [
        _Group(
            tuple(devices[first]), tuple(indices),
            tuple(choices_of(problem, plan, index, hosting.get(index)) for index in indices), 0.0,
        )
        for first, indices in stages.items()
        if not any(problem.cluster.devices[d].is_cpu for d in devices[first])
    ]  # fmt: skip


def _with(plan: Plan, groups: list[_Group]) -> Plan:
    stages = list(plan.stages)
    for group in groups:
        assert group.chosen is not None  # whoever calls has looked
        for index, regions, offload in zip(group.stages, group.chosen.regions, group.chosen.offload, strict=True):
            stages[index] = replace(stages[index], regions=regions, offload=offload)
    return replace(plan, stages=tuple(stages))
