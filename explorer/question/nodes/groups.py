"""Tensor-parallel groups: so many devices that run one member each of a divided model are one device to a planner."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from explorer.question.nodes.wired import measured_line
from explorer.question.written.kinds import MAX_DEGREE
from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Floats
from solvers.problem.cluster import Cluster, Device, Link
from solvers.problem.graph import OpGraph
from solvers.problem.problem import ComputeTable

if TYPE_CHECKING:
    import torch

    from explorer.tracing.captured import Captured
    from explorer.tracing.trace import Divide

Amount = TypeVar("Amount", float, Floats)


@dataclass(frozen=True, slots=True)
class Members:
    """The devices by whose times calls are divided, and the link from a member to the next. By default, where no plan
    says which: an H100 with NVLink 4 in one direction (NVIDIA, H100 data sheet: 900 GB/s in both), and about what
    NCCL's smallest messages take for a step of a ring inside a node (docs/sharding.md)."""

    kind: str = "H100-80GB"
    bandwidth_bytes_per_s: float = 450e9
    latency_s: float = 5e-6


ANY_MEMBERS = Members()


def members_of(cluster: Cluster, degree: int, reference: str) -> Members:
    """Those of a cluster's groups: the kind that most accelerators are of, and the slowest link. The default for kinds
    of which no rates are known. Raises InvalidProblem where groups do not fit, in one line."""
    from explorer.costs.devices import DEVICES

    link = grouped(cluster, degree, reference)[1]
    kind = Counter(cluster.devices[at].kind for at in cluster.accelerators).most_common(1)[0][0]
    if link is None or kind not in DEVICES:
        return ANY_MEMBERS
    return Members(kind, link.bandwidth_bytes_per_s, link.latency_s)


def divider(
    degree: int | None, sequence: int | None, dtype: torch.dtype | str | None, members: Members = ANY_MEMBERS
) -> Divide | None:
    """What divides a traced model over ``degree`` devices; None where tensors stay whole. sequence: 0 where tokens are
    not divided, even where nothing needs them together. members: by whose times. Raises InvalidProblem for a degree
    that is none."""
    if degree is None and sequence is not None:
        raise InvalidProblem("--sequence-parallel divides tokens over a tensor-parallel group; add --tensor-parallel N")
    if degree is None or degree == 1:
        return None
    if not 1 <= degree <= MAX_DEGREE:
        raise InvalidProblem(f"the degree (--tensor-parallel) must be from 1 to {MAX_DEGREE}, found {degree}")
    from explorer.costs.roofline import estimate
    from explorer.tracing.sharding.divide import Group
    from explorer.tracing.sharding.program import GroupLink

    rate = dtype if isinstance(dtype, str) and dtype in ("bf16", "fp16", "fp32") else None

    def seconds(graph: OpGraph) -> Floats:
        return estimate(graph, [members.kind], rate).at(members.kind, graph.samples)

    link = GroupLink(members.bandwidth_bytes_per_s, members.latency_s)
    group = Group(degree, seconds, members.kind, link, sequence != 0)

    def divide(small: Captured, large: Captured, training: bool) -> tuple[Captured, Captured, int]:
        divided = group.divide(small, large, training)
        return divided.small, divided.large, degree

    return divide


def grouped(cluster: Cluster, degree: int, reference: str) -> tuple[Cluster, Link | None]:
    """The groups of a cluster as devices, and the slowest link from a member to the next of its group; the cluster as
    it is for a degree of 1. Groups are devices that follow one another; each holds what its smallest member does, and
    sends to other groups member by member. Raises InvalidProblem where they do not fit, in one line."""
    if degree == 1:
        return cluster, None
    count = len(cluster.accelerators)
    if cluster.cpus:
        raise InvalidProblem(f"{reference}: a tensor-parallel group has no CPUs; leave out --cpus")
    if count % degree:
        raise InvalidProblem(
            f"{reference}: {count} devices make no groups of {degree}; give a multiple of it (--devices), or another"
            " degree (--tensor-parallel)"
        )
    groups = [cluster.devices[first : first + degree] for first in range(0, count, degree)]
    devices = tuple(_as_one(members, number * degree) for number, members in enumerate(groups))
    links = [
        cluster.link(first + member, first + (member + 1) % degree)
        for first in range(0, count, degree)
        for member in range(degree)
    ]
    if any(link is None for link in links):
        raise InvalidProblem(f"{reference}: members of a tensor-parallel group need links to one another")
    slowest = max((link for link in links if link is not None), key=lambda link: link.transfer_s(2.0**20))
    part = cluster.part(range(0, count, degree))
    return replace(part, devices=devices), slowest


def _as_one(members: tuple[Device, ...], first: int) -> Device:
    kinds = {member.kind for member in members}
    nodes = {member.node for member in members}
    if len(kinds) > 1 or len(nodes) > 1:
        what = "one kind" if len(kinds) > 1 else "one node"
        raise InvalidProblem(
            f"a tensor-parallel group has devices of {what}, and {members[0].name} to {members[-1].name} are not;"
            " give another degree (--tensor-parallel) or order of devices"
        )
    memory = min(member.memory_bytes for member in members)
    return replace(members[0], name=f"GPU {first}-{first + len(members) - 1}", memory_bytes=memory)


def with_exchanges(compute: ComputeTable, graph: OpGraph, link: Link, *, measured: bool = False) -> ComputeTable:
    """Compute times with what members of a group exchange during them: steps of a link's latency, and bytes. measured:
    see `exchange_links`."""
    degree = graph.tensor_parallel
    samples = np.array(compute.samples, dtype=np.float64)
    fixed = np.array([operator.exchanged_bytes.fixed for operator in graph.operators])
    per_sample = np.array([operator.exchanged_bytes.per_sample for operator in graph.operators])
    steps = np.array([operator.exchange_steps for operator in graph.operators], dtype=np.float64)
    nbytes = fixed[:, None] + per_sample[:, None] * samples
    found = {}
    for kind, table in compute.seconds.items():
        others, sums = exchange_links(kind, degree, link, measured)
        adds = steps >= all_reduce_steps(degree)
        latency = np.where(adds, sums.latency_s, others.latency_s)
        rate = np.where(adds, sums.bandwidth_bytes_per_s, others.bandwidth_bytes_per_s)
        found[kind] = table + exchange_s(steps[:, None], latency[:, None], nbytes, rate[:, None])
    return replace(compute, seconds=found)


def all_reduce_steps(members: int) -> int:
    """Messages that a member sends for an all-reduce round a ring, one after the other: twice those of other kinds."""
    return 2 * (members - 1)


def exchange_s(steps: Amount, latency_s: Amount, nbytes: Amount, bandwidth_bytes_per_s: Amount) -> Amount:
    """Seconds of an exchange among members of a group: numbers, or arrays of them.

    steps: messages, one after the other. nbytes: that a member sends in them.
    """
    return steps * latency_s + nbytes / bandwidth_bytes_per_s


def exchange_links(kind: str, degree: int, link: Link, measured: bool) -> tuple[Link, Link]:
    """What members of a group exchange over: all but all-reduces, and these, which are what a member sends twice as
    often for as it has fellows. measured: as lines through collectives of as many devices of the kind are
    (`costs.curves`), where they were measured; else over ``link``."""
    lines = [measured_line(kind, one, degree) if measured else None for one in ("reduce_scatter", "all_reduce")]
    others, sums = (
        link
        if line is None
        else replace(link, latency_s=line.latency_s, bandwidth_bytes_per_s=line.bandwidth_bytes_per_s)
        for line in lines
    )
    return others, sums
