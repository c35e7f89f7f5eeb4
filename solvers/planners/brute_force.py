"""Every placement of a tiny graph: the oracle the other planners are tested against."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from solvers.assemble import assemble
from solvers.bounds import together
from solvers.errors import InvalidPlan
from solvers.monitor import Monitor
from solvers.planners.baselines import runs_on
from solvers.problem import Contiguity, Objective, Problem


@dataclass(frozen=True)
class BruteForce:
    """All assignments of co-location groups to devices, equal devices counted once.

    Covers every placement without replication and every allowed number of micro-batches. For
    MAX_LOAD the answer is optimal; for ITERATION it is optimal for the problem's pipeline order if
    the contiguity is ACYCLIC; for MAKESPAN the operator order is only one of many, so nothing is
    claimed.
    """

    name: ClassVar[str] = "brute-force"
    source: ClassVar[str] = "exhaustive enumeration"
    guarantee: ClassVar[str] = "exact"

    placement_limit: int = 200_000

    def unsupported(self, problem: Problem) -> str | None:
        groups = len(together(problem.graph))
        if len(problem.cluster) ** groups > self.placement_limit:
            return (
                f"{groups} groups of operators on {len(problem.cluster)} devices are more than"
                f" {self.placement_limit} placements; use downset-dp"
            )
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        groups = together(problem.graph)
        for devices in _assignments(problem, len(groups)):
            monitor.check()
            if not all(runs_on(problem, group, device) for group, device in zip(groups, devices, strict=True)):
                continue
            placement: list[tuple[int, ...]] = [()] * len(problem.graph)
            for group, device in zip(groups, devices, strict=True):
                for operator in group:
                    placement[operator] = (device,)
            for count in problem.micro_batch_choices():
                try:
                    monitor.offer(assemble(problem, placement, count))
                except InvalidPlan:
                    break  # no acyclic stages: not a plan
        if problem.objective is Objective.MAX_LOAD:
            return True
        return problem.objective is Objective.ITERATION and problem.contiguity is Contiguity.ACYCLIC


def _assignments(problem: Problem, groups: int) -> Iterator[Sequence[int]]:
    """Device per group; of interchangeable devices a new one is only opened in index order."""
    specs = problem.cluster.devices
    pinned = set(problem.pins.values())
    uniform = len({(link.bandwidth_bytes_per_s, link.latency_s) for link in problem.cluster.links}) <= 1
    twins: dict[int, int] = {}  # device -> the equal device that must be opened before it
    for device, spec in enumerate(specs):
        for earlier in range(device - 1, -1, -1):
            same = (specs[earlier].kind, specs[earlier].memory_bytes) == (spec.kind, spec.memory_bytes)
            if same and uniform and not {device, earlier} & pinned:
                twins[device] = earlier
                break
    chosen = [0] * groups
    if len(specs) == 1:  # any number of groups: too deep for the recursion
        return iter([chosen])

    def extend(position: int, used: frozenset[int]) -> Iterator[Sequence[int]]:
        if position == groups:
            yield chosen
            return
        for device in range(len(specs)):
            if device not in used and device in twins and twins[device] not in used:
                continue
            chosen[position] = device
            yield from extend(position + 1, used | {device})

    return extend(0, frozenset())
