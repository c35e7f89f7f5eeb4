"""When no plan was found: what the plain splits lack, and which changes of the question would do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from solvers.errors import InvalidPlan, InvalidProblem
from solvers.evaluation.memory_parts import memory_parts
from solvers.evaluation.simulation import run
from solvers.joint.planners.layer_split import LayerSplit
from solvers.plan.plan import Plan
from solvers.planners.baselines import EqualSplit, SingleDevice
from solvers.problem.cluster import uniform_cluster
from solvers.problem.problem import Objective, Problem
from solvers.search.monitor import Monitor, Stop

LOOK_S = 60.0
"""Seconds for a look at one question, a guard: the plain splits take a fraction of a second, but kernels may have to
be compiled."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the question. words: what to change. needs_bytes: what the leanest plain split then holds on the
    device that lacks most, or has least left. fits: whether that is within the cap."""

    words: str
    needs_bytes: float
    fits: bool


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The plain split that lacks least memory.

    planner: its name. device: where it lacks most. peak_bytes, cap_bytes: what that one holds, and may. parts: of the
    peak, by kind. changes: what was looked at.
    """

    planner: str
    device: int
    peak_bytes: float
    cap_bytes: float
    parts: Mapping[str, float]
    changes: tuple[Change, ...]


def shortfall(problem: Problem) -> Shortfall | None:
    """What the plain splits lack, and whether they would fit with more micro-batches, recomputing or twice as many
    devices; None if one fits, or none can be made."""
    look = _look(problem)
    if look.plan is None or look.lacks_bytes <= 0:
        return None
    changes = []
    for words, question in _changed(problem):
        other = _look(question)
        if other.plan is not None:
            changes.append(Change(words, other.peaks[other.device], bool(other.lacks_bytes <= 0)))
    device = look.device
    parts = memory_parts(problem, look.plan, look.peaks)[device]
    cap = problem.cluster.devices[device].memory_bytes
    return Shortfall(look.planner, device, look.peaks[device], cap, parts, tuple(changes))


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


def _changed(problem: Problem) -> Iterator[tuple[str, Problem]]:
    """Questions that need less memory a device, and what is changed in them."""
    most = problem.mini_batch
    if problem.objective is Objective.ITERATION and (problem.micro_batches or most) < most:
        yield f"{most} micro-batches of 1", replace(problem, micro_batches=most)
    if problem.has_backward() and not problem.recompute:
        with suppress(InvalidProblem):
            yield "recomputing", replace(problem, recompute=True)
    cluster, devices = problem.cluster, problem.cluster.devices
    if cluster.links and not cluster.cpus and len({(d.kind, d.memory_bytes) for d in devices}) == 1:
        slowest = min(cluster.links, key=lambda link: link.bandwidth_bytes_per_s)
        more = [replace(device, name=f"{device.name} {turn}") for turn in (1, 2) for device in devices]
        twice = uniform_cluster(more, slowest.bandwidth_bytes_per_s, slowest.latency_s)
        yield f"{len(more)} devices", replace(problem, cluster=twice)
