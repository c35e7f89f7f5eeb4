"""What people do without a planner: everything on one device, or equal numbers of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from solvers.assemble import assemble
from solvers.bounds import together
from solvers.chains import Chain, Part, iteration_floor_s
from solvers.coarsen import Condensed
from solvers.errors import InvalidPlan
from solvers.graph import Phase
from solvers.monitor import Monitor
from solvers.problem import Objective, Problem
from solvers.segments import Place


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
    """The same number of operators on every accelerator, in topological order.

    What a person writes down in a minute ("24 layers, 4 GPUs, 6 each"); co-located operators stay
    together.
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
        parts = _equal_parts(problem, members)
        placement: list[Place] = [()] * len(problem.graph)
        for device, part in zip(problem.cluster.accelerators, parts, strict=True):
            for operator in (o for node in part for o in members[node]):
                placement[operator] = (device,)
        chain = Chain(math.nan, tuple(Part(False, tuple(part)) for part in parts))
        for group in together(problem.graph):  # a pin takes along what must share its device
            for device in {problem.pins[o] for o in group if o in problem.pins}:
                for operator in group:
                    placement[operator] = (device,)
        for count in problem.micro_batch_choices():
            monitor.check()
            if problem.objective is Objective.ITERATION and not problem.pins:
                contracted = condensed.at(problem.mini_batch // count, merge_trivial=False)
                if iteration_floor_s(problem, contracted, chain) >= monitor.objective_s:
                    continue
            try:
                monitor.offer(assemble(problem, placement, count))
            except InvalidPlan:  # a pin makes tensors flow round the devices
                break
        return False


def _equal_parts(problem: Problem, members: Sequence[Sequence[int]]) -> list[list[int]]:
    """Consecutive super-operators per accelerator, so that each has the same number of forward operators."""
    operators = problem.graph.operators
    sizes = [sum(operators[o].phase is Phase.FORWARD for o in group) for group in members]
    count = len(problem.cluster.accelerators)
    parts: list[list[int]] = [[] for _ in range(count)]
    before = 0
    for node, size in enumerate(sizes):
        parts[min(before * count // max(sum(sizes), 1), count - 1)].append(node)
        before += size
    return parts
