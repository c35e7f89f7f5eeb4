"""A problem whose compute times are those of a run, so that the simulator can be fed with them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from explorer.measured.action_times import ActionTimes
from explorer.measured.parts import Part
from solvers.errors import InvalidProblem
from solvers.problem.problem import ComputeTable, Objective, Problem

Seconds = dict[tuple[int, int], float]
"""(device, operator) -> seconds of a replica's share of a micro-batch, or of the mini-batch for an update."""


def measured_seconds(problem: Problem, parts: Sequence[Part], times: ActionTimes) -> Seconds:
    """What every operator took on every device where its segment was measured.

    The time of an action goes to its operators by their predicted share (evenly where all of them were to
    take no time). A backward in one piece (B) goes to the gradients of inputs and of parameters alike; where
    these ran apart for some micro-batches, each keeps the share it had there. What runs again first is taken
    off the backward. A copy of an operator that another part on the device holds too keeps its predicted
    time, since one table cannot tell the two apart.
    """
    held = Counter((device, o) for part, device in _placed(parts, times) for o in set(part.operators))
    by_operator: Seconds = {}
    for part, device in _placed(parts, times):
        spread = _Spread(problem, part, device, {o for o in part.operators if held[device, o] > 1})
        forward = _sum(times.seconds, part, "F", device)
        if forward is not None:
            by_operator |= spread.over(part.of(problem, "F"), "F", forward)
        backward = [s for g in part.segments if (s := times.backward_s.get((g, device))) is not None]
        if backward:
            forward_s = {o: by_operator.get((device, o), spread.predicted("F")[o]) for o in set(part.again)}
            again = sum(forward_s[o] for o in part.again)
            for kind, seconds in _backward(problem, part, times, device, sum(backward), again):
                by_operator |= spread.over(part.of(problem, kind), kind, seconds)
        update = _sum(times.seconds, part, "U", device)
        if update is not None:
            by_operator |= spread.over(part.of(problem, "U"), "U", update)
    return by_operator


def fed_problem(problem: Problem, parts: Sequence[Part], seconds: Seconds) -> Problem:
    """The problem with ``seconds`` in its table, where they are known.

    Every accelerator gets a kind of its own, so that copies on different devices differ; CPUs must keep theirs
    and share the mean. The table's points are exactly the shares in use, all with one value of an operator, so
    nothing is interpolated. Raises InvalidProblem if replicas divide samples that cannot be split.
    """
    shares = sorted({share for part in parts for share in (part.samples, part.update_samples)})
    if any(share != int(share) for share in shares):
        raise InvalidProblem(f"replicas cannot have run {next(s for s in shares if s != int(s))} samples each")
    points = tuple(int(share) for share in shares)
    devices = []
    by_kind: dict[str, list[int]] = defaultdict(list)
    for index, device in enumerate(problem.cluster.devices):
        kind = device.kind if device.is_cpu else f"{device.kind} of device {index}"
        devices.append(replace(device, kind=kind))
        by_kind[kind].append(index)
    tables = {}
    for kind, members in by_kind.items():
        own = problem.cluster.devices[members[0]].kind
        table = np.column_stack([problem.compute.at(own, point) for point in points])
        values: dict[int, list[float]] = defaultdict(list)
        for (index, o), value in seconds.items():
            if index in members:
                values[o].append(value)
        for o, known in values.items():
            table[o] = fmean(known)
        tables[kind] = table
    return replace(
        problem,
        cluster=replace(problem.cluster, devices=tuple(devices)),
        compute=ComputeTable(points, tables),
        host_links=problem.links_on(problem.host_links, devices),
        state_links=problem.links_on(problem.state_links, devices),
        objective=Objective.MAKESPAN if problem.objective is Objective.MAKESPAN else Objective.ITERATION,
        costs_from="measured in a run",
    )


class _Spread:
    """Gives the seconds of an action to its operators."""

    def __init__(self, problem: Problem, part: Part, device: int, fixed: set[int]) -> None:
        self.problem, self.part, self.device, self.fixed = problem, part, device, fixed

    def predicted(self, kind: str) -> np.ndarray:
        own = self.problem.cluster.devices[self.device].kind
        return self.problem.compute.at(own, self.part.samples_of(kind))

    def over(self, operators: Sequence[int], kind: str, seconds: float) -> Seconds:
        """New seconds of ``operators`` that add up to ``seconds``, a repeated one counted as often."""
        times = self.predicted(kind)
        free = [o for o in operators if o not in self.fixed]
        if free:
            seconds = max(0.0, seconds - sum(float(times[o]) for o in operators if o in self.fixed))
        else:
            free = list(operators)
        whole = sum(float(times[o]) for o in free)
        if whole > 0:
            return {(self.device, o): float(times[o]) * (seconds / whole) for o in free}
        return {(self.device, o): seconds / len(free) for o in free}


def _placed(parts: Sequence[Part], times: ActionTimes) -> list[tuple[Part, int]]:
    """Parts with each of the devices on which they were measured."""
    devices: dict[int, set[int]] = defaultdict(set)
    for segment, device in times.places():
        devices[segment].add(device)
    return [(part, device) for part in parts for device in sorted({d for g in part.segments for d in devices[g]})]


def _sum(seconds: Mapping[tuple[int, str, int], float], part: Part, kind: str, device: int) -> float | None:
    known = [s for g in part.segments if (s := seconds.get((g, kind, device))) is not None]
    return sum(known) if known else None


def _backward(
    problem: Problem, part: Part, times: ActionTimes, device: int, total_s: float, again_s: float
) -> list[tuple[str, float]]:
    """(kind, seconds) of the backward of one micro-batch without what runs again: B, or I and W apart."""
    inputs, weights = (_sum(times.seconds, part, kind, device) for kind in "IW")
    divided = inputs is not None and weights is not None and inputs + weights > 0
    if not divided or not part.of(problem, "I") or not part.of(problem, "W"):
        return [("B", max(0.0, total_s - again_s))]
    assert inputs is not None
    assert weights is not None
    share = inputs / (inputs + weights)
    return [("I", max(0.0, total_s * share - again_s)), ("W", total_s * (1 - share))]
