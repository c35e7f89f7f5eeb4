"""Many equal devices: plans of a part of them, which all other parts do too, each with its share of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from solvers.errors import NoLink
from solvers.plan.alike import multiplied
from solvers.plan.plan import Plan
from solvers.problem.cluster import Cluster, Repeats
from solvers.problem.links import Tiers
from solvers.problem.problem import Objective, Problem

MOST_DEVICES = 64
"""Searches look at every pair of devices up to here; above, a part of at most as many is planned."""


@dataclass(frozen=True, eq=False)
class Part:
    """question: of the first of ``groups`` of devices, [groups] each in the order of the first. of: the whole one."""

    of: Problem
    question: Problem
    groups: tuple[tuple[int, ...], ...]

    def answer(self, plan: Plan) -> Plan:
        """The plan of the part, done by all groups."""
        return multiplied(plan, self.groups, len(self.of.cluster), len(self.groups))


def parts_of_many(problem: Problem) -> list[Part]:
    """The questions about parts of more than `MOST_DEVICES` devices, the largest part first: of some nodes that are
    alike, where as many parts as share the mini-batch leave the fewest devices idle. None where there are fewer
    devices, or devices are distinguished."""
    cluster = problem.cluster
    distinguished = problem.pins or cluster.cpus or problem.objective is not Objective.ITERATION
    if len(cluster) <= MOST_DEVICES or distinguished or not isinstance(cluster.links, Tiers):
        return []
    alike = _equal_nodes(cluster, cluster.links)
    parts = []
    for each in range(MOST_DEVICES // len(alike[0]), 0, -1):
        rows = (alike[i * each : (i + 1) * each] for i in range(_sharing(problem, len(alike) // each)))
        groups = tuple(tuple(device for node in row for device in node) for row in rows)
        parts.append(part_of(problem, groups))
    most = max((len(part.groups) * len(part.groups[0]) for part in parts), default=0)
    return [part for part in parts if len(part.groups) * len(part.groups[0]) == most]


def _sharing(problem: Problem, most: int) -> int:
    """The largest number of parts, at most so many, that can share every micro-batch."""
    samples = problem.mini_batch // (problem.micro_batches or 1)
    return max((n for n in range(1, min(most, problem.max_replicas) + 1) if samples % n == 0), default=1)


def part_of(problem: Problem, groups: tuple[tuple[int, ...], ...]) -> Part:
    """The question about the first of groups of devices that are alike. Raises NoLink where links are listed one by one
    and there are several groups."""
    times, first, tiers = len(groups), groups[0], problem.cluster.links
    if times > 1 and not isinstance(tiers, Tiers):
        raise NoLink("devices whose links are listed one by one make no groups that are known to be alike")
    between = ((src, dst) for src in first for dst in (groups[1] if times > 1 else ()))
    onward = {tiers.class_of(src, dst) for src, dst in between} if isinstance(tiers, Tiers) else set()
    slowest = max(onward, key=lambda link: (-link.bandwidth_bytes_per_s, link.latency_s), default=None)
    question = replace(
        problem,
        cluster=problem.cluster.part(first),
        mini_batch=problem.mini_batch // times,
        max_replicas=min(problem.max_replicas // times, len(first)),
        repeats=Repeats(times, slowest),
    )
    return Part(problem, question, groups)


def _equal_nodes(cluster: Cluster, tiers: Tiers) -> list[list[int]]:
    """The devices of nodes in their order that are as the first is."""
    members: dict[int, list[int]] = {}
    for device, node in enumerate(tiers.nodes):
        members.setdefault(node, []).append(device)
    wanted = _looks(cluster, tiers, next(iter(members.values())))
    return [some for some in members.values() if _looks(cluster, tiers, some) == wanted]


def _looks(cluster: Cluster, tiers: Tiers, devices: Sequence[int]) -> list[tuple[object, ...]]:
    """What distinguishes the devices of a node from those of another."""
    specs = [(cluster.devices[device], tiers.groups[device]) for device in devices]
    return [(spec.kind, spec.memory_bytes, spec.concurrency, group) for spec, group in specs]
