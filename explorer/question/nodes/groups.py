"""Tensor-parallel groups: so many devices that run one member each of a divided model are one device to a planner."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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

DIVIDED_ON = "H100-80GB"
"""The kind of device by whose times calls are divided; plans are judged by those of the devices that are asked for."""
GROUP_BANDWIDTH_BYTES_PER_S = 450e9
"""Of NVLink 4, one direction (NVIDIA, H100 data sheet: 900 GB/s in both)."""
GROUP_LATENCY_S = 5e-6
"""A step of a ring inside a node, about: what NCCL's smallest messages take (see docs/sharding.md)."""


def divider(degree: int | None, sequence: int | None, dtype: torch.dtype | str | None) -> Divide | None:
    """What divides a traced model over ``degree`` devices; None where tensors stay whole. sequence: 0 where tokens are
    not divided, even where nothing needs them together. Raises InvalidProblem for a degree that is none."""
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
        return estimate(graph, [DIVIDED_ON], rate).at(DIVIDED_ON, graph.samples)

    group = Group(degree, seconds, DIVIDED_ON, GroupLink(GROUP_BANDWIDTH_BYTES_PER_S, GROUP_LATENCY_S), sequence != 0)

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
    """Compute times with what members of a group exchange during them: steps of the link's latency, and bytes.
    measured: as lines through collectives of as many devices are (`costs.curves`), where they were measured: those of
    all-reduces where a member sends twice as often as it has fellows, else of reduce-scatters."""
    degree = graph.tensor_parallel
    samples = np.array(compute.samples, dtype=np.float64)
    fixed = np.array([operator.exchanged_bytes.fixed for operator in graph.operators])
    per_sample = np.array([operator.exchanged_bytes.per_sample for operator in graph.operators])
    steps = np.array([operator.exchange_steps for operator in graph.operators])
    nbytes = fixed[:, None] + per_sample[:, None] * samples
    found = {}
    for kind, table in compute.seconds.items():
        latency, rate = np.full(len(graph), link.latency_s), np.full(len(graph), link.bandwidth_bytes_per_s)
        for operation, has in (("reduce_scatter", steps < 2 * (degree - 1)), ("all_reduce", steps >= 2 * (degree - 1))):
            line = measured_line(kind, operation, degree) if measured else None
            if line is not None:
                latency[has], rate[has] = line.latency_s, line.bandwidth_bytes_per_s
        found[kind] = table + (steps * latency)[:, None] + nbytes / rate[:, None]
    return replace(compute, seconds=found)
