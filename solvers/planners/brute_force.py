"""Every placement of a tiny graph: the oracle the other planners are tested against."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from solvers.errors import InvalidPlan
from solvers.plan.segments import Place
from solvers.planners.baselines import runs_on
from solvers.problem.groups import together
from solvers.problem.problem import Contiguity, Objective, Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor


@dataclass(frozen=True)
class BruteForce:
    """All assignments of co-location groups to devices, equal devices counted once.

    Covers every allowed number of micro-batches and every placement in which a group has one device,
    or up to ``max_replicas`` accelerators of one kind, and two groups share all of their devices or none.
    For MAX_LOAD the answer is optimal among these, for every contiguity and transfer model, with GPIPE and
    1F1B, and with any other pipeline if its order cannot change what fits; for ITERATION it is optimal for
    the order of GPIPE or 1F1B, and links that serve by their own rule, if the contiguity is ACYCLIC (other
    pipelines have many orders, and stages that share a device can be cut in many ways); for MAKESPAN the operator
    order is only one of many, so nothing is claimed. Nor is it where stages may differ in micro-batch size, or
    where recomputation may make room: all stages recompute where a placement does not fit otherwise, and none does
    elsewhere.
    """

    name: ClassVar[str] = "brute-force"
    source: ClassVar[str] = "exhaustive enumeration"
    guarantee: ClassVar[str] = "exact"

    placement_limit: int = 200_000

    def unsupported(self, problem: Problem) -> str | None:
        groups = len(together(problem.graph))
        if _more_than(self.placement_limit, problem, groups):
            replicas = f" or sets of up to {problem.max_replicas} of them" if problem.max_replicas > 1 else ""
            return (
                f"{groups} groups of operators on {len(problem.cluster)} devices{replicas} are more than"
                f" {self.placement_limit} placements; use downset-dp"
            )
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        groups = together(problem.graph)
        recomputes = problem.recompute and problem.has_backward()
        for places in _assignments(problem, len(groups)):
            monitor.check()
            if not all(runs_on(problem, group, place[0]) for group, place in zip(groups, places, strict=True)):
                continue
            placement: list[Place] = [()] * len(problem.graph)
            for group, place in zip(groups, places, strict=True):
                for operator in group:
                    placement[operator] = place
            for count in problem.micro_batch_choices():
                try:
                    plan = assemble(problem, placement, count)
                except InvalidPlan:
                    break  # no acyclic stages: not a plan
                if monitor.offer(plan) == math.inf and recomputes:
                    monitor.offer(replace(plan, stages=tuple(replace(stage, recompute=True) for stage in plan.stages)))
        placed = _memory_is_placed(problem)
        if not problem.sizes_alike or (recomputes and not placed):
            return False
        # Only these two have one order and one memory for each placement; others leave both open.
        textbook = problem.alternates or problem.pipeline is Pipeline.GPIPE
        if problem.objective is Objective.MAX_LOAD:
            return textbook or placed
        return problem.objective is Objective.ITERATION and problem.contiguity is Contiguity.ACYCLIC and textbook


def _memory_is_placed(problem: Problem) -> bool:
    """Whether no order makes a placement fit that does not fit with another."""
    return problem.stated_bytes is not None or all(math.isinf(d.memory_bytes) for d in problem.cluster.devices)


def _more_than(limit: int, problem: Problem, groups: int) -> bool:
    """Whether there are more than ``limit`` assignments, equal devices distinguished if none is replicated."""
    single = len(problem.cluster) ** groups
    if single > limit or problem.max_replicas == 1:
        return bool(single > limit)
    equal = Counter(device.kind for device in problem.cluster.devices)
    if sum(math.comb(n, r) for n in equal.values() for r in range(1, problem.max_replicas + 1)) > limit:
        return True
    places, twins = _places(problem), _twins(problem)
    count: Counter[tuple[int, frozenset[int]]] = Counter({(0, frozenset()): 1})  # places opened, devices used
    for _ in range(groups):
        after: Counter[tuple[int, frozenset[int]]] = Counter()
        for (opened, used), ways in count.items():
            after[opened, used] += opened * ways
            for place in places:
                if _may_open(place, used, twins):
                    after[opened + 1, used.union(place)] += ways
        count = after
        if sum(count.values()) > limit:
            return True
    return False


def _places(problem: Problem) -> list[Place]:
    """What a group can be placed on: one device, or several accelerators of one kind."""
    devices = problem.cluster.devices
    places: list[Place] = [(device,) for device in range(len(devices))]
    for replicas in range(2, problem.max_replicas + 1):
        places += [
            place
            for place in itertools.combinations(problem.cluster.accelerators, replicas)
            if len({devices[d].kind for d in place}) == 1
        ]
    return places


def _twins(problem: Problem) -> dict[int, int]:
    """Device -> the equal device that must be opened before it, or with it."""
    specs = problem.cluster.devices
    pinned = set(problem.pins.values())
    uniform = _uniform(problem)
    twins: dict[int, int] = {}
    for device, spec in enumerate(specs):
        for earlier in range(device - 1, -1, -1):
            same = replace(specs[earlier], name=spec.name, node=spec.node) == spec
            if same and uniform and not {device, earlier} & pinned:
                twins[device] = earlier
                break
    return twins


def _uniform(problem: Problem) -> bool:
    """Whether every pair of devices is joined alike, each by a wire of its own, or none is joined."""
    cluster = problem.cluster
    alike = len({(speed.bandwidth_bytes_per_s, speed.latency_s) for speed in cluster.speeds}) <= 1
    shared = [link.resource for link in cluster.links if link.resource]
    return alike and (not cluster.links or cluster.is_complete) and len(set(shared)) == len(shared)


def _may_open(place: Place, used: frozenset[int], twins: dict[int, int]) -> bool:
    return used.isdisjoint(place) and all(twins[d] in used or twins[d] in place for d in place if d in twins)


def _assignments(problem: Problem, groups: int) -> Iterator[Sequence[Place]]:
    """Devices per group; of interchangeable devices a new one is only opened in index order."""
    places, twins = _places(problem), _twins(problem)
    chosen: list[Place] = [places[0]] * groups
    if len(places) == 1:  # any number of groups: too deep for the recursion
        return iter([chosen])

    def extend(position: int, opened: frozenset[Place], used: frozenset[int]) -> Iterator[Sequence[Place]]:
        if position == groups:
            yield chosen
            return
        for place in places:
            if place in opened:
                chosen[position] = place
                yield from extend(position + 1, opened, used)
            elif _may_open(place, used, twins):
                chosen[position] = place
                yield from extend(position + 1, opened | {place}, used.union(place))

    return extend(0, frozenset(), frozenset())
