"""What people do without a planner: everything on one device, or equal numbers of layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from solvers.assemble import assemble
from solvers.bounds import together
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


def busiest_s(problem: Problem, placement: Sequence[Place], micro_batches: int) -> float:
    """Seconds the busiest device of an unreplicated placement computes per mini-batch: no iteration is shorter."""
    samples = problem.mini_batch // micro_batches
    kinds = [device.kind for device in problem.cluster.devices]
    each = {kind: problem.compute.at(kind, samples).tolist() for kind in set(kinds)}
    once = {kind: problem.compute.at(kind, problem.mini_batch).tolist() for kind in set(kinds)}
    busy = [0.0] * len(kinds)
    for position, operator in enumerate(problem.graph.operators):
        (device,) = placement[position]
        kind = kinds[device]
        update = operator.phase is Phase.UPDATE
        busy[device] += once[kind][position] if update else each[kind][position] * micro_batches
    return max(busy)


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
    source: ClassVar[str] = "baseline: GPipe's default partition by layer count (Huang et al., NeurIPS 2019, section 2)"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        if not problem.cluster.accelerators:
            return "it spreads operators over accelerators, and the cluster has none"
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        contracted = Condensed(problem).at(problem.mini_batch, merge_trivial=False)
        operators = problem.graph.operators
        sizes = [sum(operators[o].phase is Phase.FORWARD for o in group) for group in contracted.shape.members]
        accelerators = problem.cluster.accelerators
        placement: list[Place] = [(accelerators[-1],)] * len(problem.graph)
        before = 0
        for members, size in zip(contracted.shape.members, sizes, strict=True):
            device = accelerators[min(before * len(accelerators) // max(sum(sizes), 1), len(accelerators) - 1)]
            for operator in members:
                placement[operator] = (device,)
            before += size
        for group in together(problem.graph):  # a pin takes along what must share its device
            for device in {problem.pins[o] for o in group if o in problem.pins}:
                for operator in group:
                    placement[operator] = (device,)
        for count in problem.micro_batch_choices():
            monitor.check()
            if problem.objective is Objective.ITERATION and busiest_s(problem, placement, count) >= monitor.objective_s:
                continue
            try:
                monitor.offer(assemble(problem, placement, count))
            except InvalidPlan:  # a pin makes tensors flow round the devices
                break
        return False
