"""When no plan was found: what the plain splits lack, by kind and by module."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from solvers.errors import InvalidPlan
from solvers.evaluation.memory_parts import memory_parts
from solvers.evaluation.simulation import run
from solvers.joint.planners.layer_split import LayerSplit
from solvers.plan.plan import Plan
from solvers.planners.baselines import EqualSplit, SingleDevice
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor, Stop

LOOK_S = 60.0
"""Seconds for a look at one question, a guard: the plain splits take a fraction of a second, but kernels may have to
be compiled."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The plain split that lacks least memory.

    planner: its name. device: where it lacks most. peak_bytes, cap_bytes: what that one holds, and may. parts: of the
    peak, by kind, the largest first. modules: what operators of that device hold at most, by module, "layers.*"
    for all numbered members of a list, the largest first.
    """

    planner: str
    device: int
    peak_bytes: float
    cap_bytes: float
    parts: Mapping[str, float]
    modules: Mapping[str, float]


def shortfall(problem: Problem) -> Shortfall | None:
    """What the plain splits lack; None if one fits, or none can be made."""
    look = _look(problem)
    if look.plan is None or look.lacks_bytes <= 0:
        return None
    device = look.device
    held = memory_parts(problem, look.plan, look.peaks)[device]
    parts = dict(sorted(held.items(), key=lambda part: -part[1]))
    cap = problem.cluster.devices[device].memory_bytes
    return Shortfall(look.planner, device, look.peaks[device], cap, parts, _modules(problem, look.plan, device))


def _modules(problem: Problem, plan: Plan, device: int) -> dict[str, float]:
    """Bytes that operators of a device keep, with the activations of all micro-batches in flight, by module."""
    static = problem.static_bytes()
    by_module: dict[str, float] = {}
    for stage in plan.stages:
        if device not in stage.devices:
            continue
        samples = stage.micro_batch_size * stage.in_flight / len(stage.devices)
        for number in stage.operators:
            operator = problem.graph.operators[number]
            held = float(static[number])
            if problem.stated_bytes is None and not stage.recompute:
                held += operator.saved_bytes.at(samples)
            if operator.module_path and held > 0:
                name = _list_of(operator.module_path)
                by_module[name] = by_module.get(name, 0.0) + held
    return dict(sorted(by_module.items(), key=lambda pair: -pair[1]))


def _list_of(path: str) -> str:
    """The module that people name: "model.layers.3.mlp" -> "model.layers.*", "stem.conv" -> "stem"."""
    parts = path.split(".")
    numbered = next((i for i, part in enumerate(parts) if part.isdigit()), None)
    return parts[0] if numbered is None else ".".join(parts[:numbered]) + ".*"


@dataclass
class _Leanest(Monitor):
    """Keeps of the plans that are offered the one that lacks least on the device where it lacks most."""

    plan: Plan | None = field(default=None, init=False)
    planner: str = field(default="", init=False)
    lacks_bytes: float = field(default=math.inf, init=False)
    device: int = field(default=0, init=False)
    peaks: list[float] = field(default_factory=list, init=False)

    def offer(self, plan: Plan) -> float:
        peaks = run(self.problem, plan).peak_bytes()
        over = [peak - device.memory_bytes for peak, device in zip(peaks, self.problem.cluster.devices, strict=True)]
        device = max(self.problem.cluster.accelerators or range(len(over)), key=over.__getitem__)
        if over[device] < self.lacks_bytes:
            self.plan, self.planner, self.device, self.lacks_bytes = plan, self.member, device, over[device]
            self.peaks = [float(peak) for peak in peaks]
        return super().offer(plan)


def _look(problem: Problem) -> _Leanest:
    monitor = _Leanest(problem, LOOK_S)
    for planner in (SingleDevice(), EqualSplit(), LayerSplit()):
        if planner.unsupported(problem) is None:
            monitor.member = planner.name
            with suppress(Stop, InvalidPlan):
                planner(problem, monitor)
    return monitor
