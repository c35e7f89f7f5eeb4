"""Thousands of equal devices: plans of a part of them, which all other parts do too, each with its share of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from solvers.plan.alike import multiplied
from solvers.plan.plan import Plan
from solvers.problem.cluster import Cluster
from solvers.problem.links import Tiers
from solvers.problem.problem import Objective, Problem

MOST_DEVICES = 256
"""Searches look at every pair of devices up to here; above, a part of them is planned."""
PART = 64
"""Devices of such a part."""


@dataclass(frozen=True, eq=False)
class Part:
    """question: of the first of ``groups`` of devices, [groups] each in the order of the first. of: the whole one."""

    of: Problem
    question: Problem
    groups: tuple[tuple[int, ...], ...]

    def answer(self, plan: Plan) -> Plan:
        """The plan of the part, done by all groups."""
        return multiplied(plan, self.groups, len(self.of.cluster), len(self.groups))


def part_of_many(problem: Problem) -> Part | None:
    """The question about a part of more than `MOST_DEVICES` devices, whose replicas in all parts are those of a stage:
    nodes that are alike, as many parts as share the mini-batch. None where there are fewer devices, or nothing is
    replicated, or devices are told apart."""
    cluster = problem.cluster
    told_apart = problem.pins or cluster.cpus or problem.objective is not Objective.ITERATION
    if len(cluster) <= MOST_DEVICES or told_apart or not isinstance(cluster.links, Tiers):
        return None
    groups = _equal_groups(cluster, cluster.links)
    most = min(len(groups), problem.max_replicas)
    times = max((n for n in range(1, most + 1) if problem.mini_batch % n == 0), default=1)
    if problem.micro_batches is not None:
        times = max(n for n in range(1, times + 1) if problem.mini_batch // problem.micro_batches % n == 0)
    if not groups:
        return None
    question = replace(
        problem,
        cluster=cluster.part(groups[0]),
        mini_batch=problem.mini_batch // times,
        max_replicas=min(problem.max_replicas // times, len(groups[0])),
    )
    return Part(problem, question, groups[:times])


def _equal_groups(cluster: Cluster, tiers: Tiers) -> tuple[tuple[int, ...], ...]:
    """Nodes in their order, put together to groups of at most `PART` devices, that are as the first such group is."""
    members: dict[int, list[int]] = {}
    for device, node in enumerate(tiers.nodes):
        members.setdefault(node, []).append(device)
    first = next(iter(members.values()))
    wanted = _looks(cluster, tiers, first)
    alike = [some for some in members.values() if _looks(cluster, tiers, some) == wanted]
    each = max(1, PART // len(first))
    rows = [alike[i : i + each] for i in range(0, len(alike) - each + 1, each)]
    return tuple(tuple(device for some in row for device in some) for row in rows)


def _looks(cluster: Cluster, tiers: Tiers, devices: Sequence[int]) -> list[tuple[object, ...]]:
    """What tells the devices of a node from those of another."""
    specs = [(cluster.devices[device], tiers.groups[device]) for device in devices]
    return [(spec.kind, spec.memory_bytes, spec.concurrency, group) for spec, group in specs]
