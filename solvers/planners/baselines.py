"""What people do without a planner: everything on one device, or equal numbers of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.chains import Chain, Part, iteration_floor_s
from solvers.errors import InvalidPlan
from solvers.kernels.arrays import Ints
from solvers.pipelines.boundary_moves import offer_more_in_flight
from solvers.plan.segments import Place
from solvers.problem.graph import Phase
from solvers.problem.pinned import pin
from solvers.problem.problem import Objective, Problem
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor


def runs_on(problem: Problem, operators: tuple[int, ...], device: int) -> bool:
    """Whether every one of ``operators`` can run on ``device``."""
    times = problem.compute.at(problem.cluster.devices[device].kind, 1)
    return bool((times[list(operators)] < float("inf")).all())


@dataclass(frozen=True)
class SingleDevice:
    """Everything on one device, in the fewest micro-batches that fit: the plan to beat."""

    name: ClassVar[str] = "single"
    source: ClassVar[str] = "baseline"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        kinds: set[tuple[str, float]] = set()
        for device, spec in enumerate(problem.cluster.devices):
            if (spec.kind, spec.memory_bytes) in kinds and not problem.pins:
                continue
            kinds.add((spec.kind, spec.memory_bytes))
            if not runs_on(problem, tuple(range(len(problem.graph))), device):
                continue
            for count in problem.micro_batch_choices():
                monitor.check()
                if monitor.offer(assemble(problem, [(device,)] * len(problem.graph), count)) < float("inf"):
                    break  # smaller micro-batches are no faster on one device
        return False


@dataclass(frozen=True)
class EqualSplit:
    """The same number of operators in every stage, in topological order.

    What a person writes down in a minute ("24 layers, 4 GPUs, 6 each"); co-located operators stay
    together. Where replicas are allowed, every number of stages that divides that of the accelerators is
    tried, each stage on equally many of them (the "equal" baseline of Tarnawski et al., NeurIPS 2021,
    section 5). Stages recompute their forward where the problem allows it and memory asks for it.
    """

    name: ClassVar[str] = "equal"
    source: ClassVar[str] = "baseline: the split by layer count that people write by hand"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        if not problem.cluster.accelerators:
            return "it spreads operators over accelerators, and the cluster has none"
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        condensed = Condensed(problem, ordered=True)
        members = condensed.at(problem.mini_batch, merge_trivial=False).shape.members
        forward = np.array([operator.phase is Phase.FORWARD for operator in problem.graph.operators])
        forwards = np.array([forward[list(group)].sum() for group in members])
        devices = problem.cluster.accelerators
        options: list[tuple[float, int, int]] = []
        for replicas in range(1, min(problem.max_replicas, len(devices)) + 1):
            if len(devices) % replicas or (replicas > 1 and problem.pins):
                continue
            parts = _equal_parts(forwards, len(devices) // replicas)
            chain = Chain(math.nan, tuple(Part(False, tuple(part)) for part in parts if part))
            for count in problem.micro_batch_choices():
                monitor.check()
                samples = problem.mini_batch // count
                if problem.can_share(samples, replicas):
                    contracted = condensed.at(samples, merge_trivial=False, replicas=replicas)  # costs of a share
                    options.append((iteration_floor_s(problem, contracted, chain), replicas, count))
        bounded = problem.objective is Objective.ITERATION and not problem.pins
        for floor_s, replicas, count in sorted(options) if bounded else options:
            monitor.check()
            if bounded and floor_s >= monitor.objective_s:
                break
            parts = _equal_parts(forwards, len(devices) // replicas)
            try:
                self._offer(problem, monitor, members, parts, replicas, count)
            except InvalidPlan:  # a pin makes the devices form a cycle
                continue
        offer_more_in_flight(problem, monitor)
        return False

    @staticmethod
    def _offer(
        problem: Problem,
        monitor: Monitor,
        members: Sequence[Sequence[int]],
        parts: Sequence[Sequence[int]],
        replicas: int,
        count: int,
    ) -> None:
        placement: list[Place] = [()] * len(problem.graph)
        accelerators = problem.cluster.accelerators
        for number, part in enumerate(parts):
            devices = accelerators[number * replicas : (number + 1) * replicas]
            for operator in (o for node in part for o in members[node]):
                placement[operator] = devices
        pin(problem, placement)
        plan = assemble(problem, placement, count)
        if monitor.offer(plan) == math.inf and problem.recompute:
            monitor.check()
            monitor.offer(replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages)))


def _equal_parts(forwards: Ints, count: int) -> list[list[int]]:
    """Consecutive super-operators in ``count`` parts, so that each has the same number of forward operators.

    forwards: forward operators of each, [super-operators]."""
    before = np.cumsum(forwards) - forwards
    part = np.minimum(before * count // max(int(forwards.sum()), 1), count - 1)
    return [nodes.tolist() for nodes in np.split(np.arange(len(part)), np.searchsorted(part, np.arange(1, count)))]
