"""Tensor-parallel groups: so many devices that run one member each of a divided model are one device to a planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations, product
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from explorer.question.models.part_degrees import PartDegrees
from explorer.question.nodes.wired import Lines, unmeasured
from explorer.question.written.kinds import MAX_DEGREE
from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Floats
from solvers.problem.cluster import Cluster, Device, Link
from solvers.problem.collectives import RING, Axis, exchange_kind
from solvers.problem.graph import Amount as Bytes
from solvers.problem.graph import OpGraph
from solvers.problem.problem import ComputeTable

if TYPE_CHECKING:
    import torch

    from explorer.tracing.captured import Captured
    from explorer.tracing.sharding.divide import ByPart, Group
    from explorer.tracing.trace import Divide

Amount = TypeVar("Amount", float, Floats)


@dataclass(frozen=True, slots=True)
class Members:
    """The devices by whose times calls are divided, and the link from a member to the next. By default, where no plan
    says which: an H100 with NVLink 4 in one direction (NVIDIA, H100 data sheet: 900 GB/s in both), and about what
    NCCL's smallest messages take for a step of a ring inside a node (docs/sharding.md). outer_...: the link to its
    counterpart in another inner group, where groups have two axes; by default between nodes, of which each H100 has a
    network card of 400 Gb/s (NVIDIA, DGX H100 data sheet)."""

    kind: str = "H100-80GB"
    bandwidth_bytes_per_s: float = 450e9
    latency_s: float = 5e-6
    outer_bandwidth_bytes_per_s: float = 50e9
    outer_latency_s: float = 10e-6


ANY_MEMBERS = Members()


def members_of(
    cluster: Cluster, degree: int, reference: str, *, in_parts: bool = False, axis: Axis = Axis.TENSOR,
    outer_degree: int = 1,
) -> Members:  # fmt: skip
    """Those of a cluster's groups: the kind that most accelerators are of, and the slowest link. The default for kinds
    of which no rates are known. in_parts: whether other groups have other sizes, so that only some devices make these.
    axis: what they divide, the outer axis of two; tensors within a node alone. outer_degree: inner groups of each.
    Raises InvalidProblem where groups do not fit, in one line.
    """
    from explorer.costs.devices import DEVICES

    if in_parts:
        kinds = dict.fromkeys(device.kind for device in cluster.devices)
        links = (
            _slowest(cluster, range(first, first + degree))
            for kind in kinds
            for first in _starts(cluster, degree, kind)
        )
        link = across = max((one for one in links if one is not None), key=_seconds_of, default=None)
    else:
        _, link, across = grouped(cluster, degree, reference, axis=axis, outer_degree=outer_degree)
    kind = Counter(cluster.devices[at].kind for at in cluster.accelerators).most_common(1)[0][0]
    if link is None or kind not in DEVICES:
        return ANY_MEMBERS
    members = Members(kind, link.bandwidth_bytes_per_s, link.latency_s)
    if outer_degree == 1 or across is None:
        return members
    return replace(members, outer_bandwidth_bytes_per_s=across.bandwidth_bytes_per_s, outer_latency_s=across.latency_s)


def divider(
    degree: int | None, sequence: int | None, dtype: torch.dtype | str | None, members: Members = ANY_MEMBERS,
    axis: Axis = Axis.TENSOR, load: float = 1.0, outer_degree: int = 1, redundant: int = 0,
    inner_axis: Axis = Axis.TENSOR,
) -> Divide | None:  # fmt: skip
    """What divides a traced model over ``degree`` devices; None where tensors stay whole. sequence: 0 where tokens are
    not divided, even where nothing needs them together. members: by whose times. axis: what members divide. load:
    of the member whose experts are chosen most, over the mean. outer_degree: of how many inner groups each group is,
    among which the axis is divided, and ``inner_axis`` within each. redundant: replicas of experts beyond the first of
    each. Raises InvalidProblem for a degree that is none."""
    if degree is None and sequence is not None:
        raise InvalidProblem("--sequence-parallel divides tokens over a tensor-parallel group; add --tensor-parallel N")
    if degree in (None, 1) and load != 1:
        raise InvalidProblem("--expert-load is of the devices of a group; add --expert-parallel N")
    if redundant and Axis.EXPERT not in (axis, inner_axis):
        raise InvalidProblem("--redundant-experts is of groups that divide experts; add --expert-parallel N")
    if degree is None or degree == 1:
        return None
    if outer_degree > 1:
        inner = group_of(degree // outer_degree, sequence, dtype, members, inner_axis, load, redundant)
        across = replace(
            members, bandwidth_bytes_per_s=members.outer_bandwidth_bytes_per_s, latency_s=members.outer_latency_s
        )
        return _twice(group_of(outer_degree, sequence, dtype, across, axis, load, redundant), inner)
    group = group_of(degree, sequence, dtype, members, axis, load, redundant)

    def divide(small: Captured, large: Captured, training: bool) -> tuple[Captured, Captured, int]:
        divided = group.divide(small, large, training)
        return divided.small, divided.large, degree

    return divide


def _twice(outer: Group, inner: Group) -> Divide:
    """What divides a model among inner groups, and what each of these has over its members. Experts, their load and
    replicas are of the one that divides them."""
    if inner.axis is Axis.EXPERT:
        outer, inner = replace(outer, load=1.0, redundant=0), replace(inner, outer=outer.link)
    else:
        outer, inner = replace(outer, again=inner.degree), replace(inner, outer=outer.link, load=1.0, redundant=0)

    def divide(small: Captured, large: Captured, training: bool) -> tuple[Captured, Captured, int]:
        from explorer.tracing.sharding.twice import to_divide_again

        first = outer.divide(small, large, training)
        divided = inner.divide(
            to_divide_again(first.small, outer.degree), to_divide_again(first.large, outer.degree), training
        )
        return divided.small, divided.large, outer.degree * inner.degree

    return divide


def parts_divider(
    degree: int, parts: PartDegrees, sequence: int | None, dtype: torch.dtype | str | None, members: Members
) -> Divide:
    """What divides the parts of a traced model over groups of different sizes, and all else over ``degree`` devices."""

    def divide(small: Captured, large: Captured, training: bool) -> tuple[Captured, Captured, int]:
        by_part = by_parts(small, large, training, sequence, dtype, members)
        return divided_by_parts(by_part, degree, parts)

    return divide


def by_parts(
    small: Captured, large: Captured, training: bool, sequence: int | None, dtype: torch.dtype | str | None,
    members: Members,
) -> ByPart:  # fmt: skip
    """What divides a captured model part by part, each size of groups in the way that is found once."""
    from explorer.tracing.sharding.divide import ByPart

    return ByPart(small, large, training, lambda size: group_of(size, sequence, dtype, members))


def divided_by_parts(by_part: ByPart, degree: int, parts: PartDegrees) -> tuple[Captured, Captured, int]:
    """What one member of each group runs, at two batches, and how many members the largest has. Raises InvalidProblem
    for parts that are not there, and where they cannot be divided so."""
    parts.check({node.module_path for node in by_part.small.nodes})
    return by_part.divide(lambda path: parts.of(path, degree))


def group_of(
    degree: int, sequence: int | None, dtype: torch.dtype | str | None, members: Members, axis: Axis = Axis.TENSOR,
    load: float = 1.0, redundant: int = 0,
) -> Group:  # fmt: skip
    """What divides calls over ``degree`` devices. Raises InvalidProblem for a degree that is none."""
    if not 1 <= degree <= MAX_DEGREE:
        raise InvalidProblem(f"the degree ({axis.flag}) must be from 1 to {MAX_DEGREE}, found {degree}")
    from explorer.costs.roofline import estimate
    from explorer.tracing.sharding.divide import Group
    from explorer.tracing.sharding.program import GroupLink

    rate = dtype if isinstance(dtype, str) and dtype in ("bf16", "fp16", "fp32") else None

    def seconds(graph: OpGraph) -> Floats:
        return estimate(graph, [members.kind], rate).at(members.kind, graph.samples)

    link = GroupLink(members.bandwidth_bytes_per_s, members.latency_s)
    return Group(degree, seconds, members.kind, link, sequence != 0, axis, load, redundant=redundant)


def in_groups(
    cluster: Cluster, graph: OpGraph, compute: ComputeTable, reference: str, *, measured: Lines = unmeasured
) -> tuple[Cluster, ComputeTable, Link | None, Link | None]:
    """The groups of a cluster that a graph is divided over, as devices; compute times with what members exchange, the
    slowest link from a member to the next, and to its counterpart in the next inner group; all as it is for a model
    whose tensors are whole.

    compute: of single devices. measured: see `exchange_links`. Raises InvalidProblem where groups do not fit.
    """
    degrees = sorted(set(graph.degrees), reverse=True)
    if len(degrees) > 1:
        return *_of_sizes(cluster, graph, compute, reference, degrees, measured), None
    groups, link, across = grouped(cluster, degrees[0], reference, outer_degree=graph.outer_degree)
    if link is None:
        return groups, compute, None, None
    compute = with_exchanges(compute, graph, link, across, measured=measured)
    return groups, compute, link, across


def grouped(
    cluster: Cluster, degree: int, reference: str, *, axis: Axis | None = None, outer_degree: int = 1
) -> tuple[Cluster, Link | None, Link | None]:
    """The groups of a cluster as devices, the slowest link from a member to the next of its group, and None; of groups
    of ``outer_degree`` inner groups, which follow one another, that to the next of its inner group, and that to its
    counterpart in the next inner group. The cluster as it is for a degree of 1.

    Groups are devices that follow one another; each holds what its smallest member does, and sends to other groups
    member by member. axis: what their members divide, where that is known: tensors within a node, all else also over
    whole nodes. Raises InvalidProblem where they do not fit, in one line."""
    if degree == 1:
        return cluster, None, None
    count = len(cluster.accelerators)
    _check_no_cpus(cluster, reference)
    if count % degree:
        raise InvalidProblem(
            f"{reference}: {count} devices make no groups of {degree}; give a multiple of it (--devices), or another"
            f" degree ({(axis or Axis.TENSOR).flag})"
        )
    bounds = range(0, count + 1, degree)
    inner = degree // outer_degree
    if outer_degree > 1:
        _as_groups(cluster, range(0, count + 1, inner))  # tensors are divided within a node
    links = [_slowest(cluster, range(first, first + inner)) for first in range(0, count, inner)] if inner > 1 else []
    across = [
        _slowest(cluster, range(first + member, first + degree, inner))
        for first in (bounds[:-1] if outer_degree > 1 else ())
        for member in range(inner)
    ]
    if None in links or None in across:
        raise InvalidProblem(f"{reference}: members of a tensor-parallel group need links to one another")
    one, other = (max(filter(None, some), key=_seconds_of, default=None) for some in (links, across))
    return _as_groups(cluster, bounds, spans=axis is not Axis.TENSOR), one, other


def _check_no_cpus(cluster: Cluster, reference: str) -> None:
    if cluster.cpus:
        raise InvalidProblem(f"{reference}: a tensor-parallel group has no CPUs; leave out --cpus")


def _as_groups(cluster: Cluster, bounds: Sequence[int], *, spans: bool = False) -> Cluster:
    """Devices from a bound up to the next as one each. spans: whether these may be several nodes, all of each."""
    in_node = Counter(device.node for device in cluster.devices) if spans else Counter[int]()
    devices = tuple(_as_one(cluster.devices[first:after], first, in_node) for first, after in pairwise(bounds))
    return replace(cluster.part(bounds[:-1]), devices=devices)


def _slowest(cluster: Cluster, devices: Sequence[int]) -> Link | None:
    """From one to the next of a ring of devices; None where one has no link, or there is one."""
    links = [cluster.link(one, other) for one, other in zip(devices, (*devices[1:], devices[0]), strict=True)]
    linked = [link for link in links if link is not None]
    return max(linked, key=_seconds_of) if len(linked) == len(devices) > 1 else None


def _seconds_of(link: Link) -> float:
    return link.transfer_s(2.0**20)


def _as_one(members: Sequence[Device], first: int, in_node: Mapping[int, int]) -> Device:
    """in_node: devices of a node, of the nodes that may be one group with others."""
    kinds = {member.kind for member in members}
    nodes = Counter(member.node for member in members)
    whole = all(in_node.get(node) == count for node, count in nodes.items())
    if len(kinds) > 1 or (len(nodes) > 1 and not whole):
        what = "one kind" if len(kinds) > 1 else "whole nodes" if in_node else "one node"
        raise InvalidProblem(
            f"a tensor-parallel group has devices of {what}, and {members[0].name} to {members[-1].name} are not;"
            " give another degree (--tensor-parallel) or order of devices"
        )
    memory = min(member.memory_bytes for member in members)
    last = f"-{first + len(members) - 1}" if len(members) > 1 else ""
    return replace(members[0], name=f"GPU {first}{last}", memory_bytes=memory)


LAYOUTS = 64
"""Numbers of groups of one size that are looked at."""


def _of_sizes(
    cluster: Cluster, graph: OpGraph, compute: ComputeTable, reference: str, degrees: Sequence[int], measured: Lines
) -> tuple[Cluster, ComputeTable, Link | None]:
    """Groups of several sizes: as many of each, one size after the other, as share the work most evenly. A device of
    the kind "H100-80GB x4" runs the operators that are divided over 4, and no others."""
    _check_no_cpus(cluster, reference)
    members = np.array(graph.degrees)
    table: dict[str, Floats] = {}
    work: dict[tuple[str, int], float] = {}
    links: dict[tuple[str, int], Link] = {}
    for degree, kind in product(degrees, compute.seconds):
        slowest = [_slowest(cluster, range(i, i + degree)) for i in _starts(cluster, degree, kind)]
        known_links = [link for link in slowest if link is not None]
        if known_links:
            links[kind, degree] = max(known_links, key=_seconds_of)
        if degree > 1 and len(known_links) < max(1, len(slowest)):
            continue
        of_kind = ComputeTable(compute.samples, {kind: compute.seconds[kind]})
        if (link := links.get((kind, degree))) is not None:
            of_kind = with_exchanges(of_kind, graph, link, measured=measured, degree=degree)
        own = members == degree
        table[_kind_of_group(kind, degree)] = np.where(own[:, None], of_kind.seconds[kind], np.inf)
        work[kind, degree] = float(of_kind.at(kind, graph.samples)[own].sum())
    best: tuple[float, list[int]] | None = None
    for bounds in _layouts(cluster, degrees):
        speed = dict.fromkeys(degrees, 0.0)
        for first, after in pairwise(bounds):
            degree, kind = after - first, cluster.devices[first].kind
            speed[degree] += 1 / max(work[kind, degree], 1e-12) if (kind, degree) in work else 0.0
        load = max(1 / max(each, 1e-300) for each in speed.values())
        if best is None or load < best[0] * (1 - 1e-9):
            best = load, bounds
    if best is None:
        words = " and ".join(map(str, degrees))
        raise InvalidProblem(
            f"{reference}: {len(cluster.accelerators)} devices make no groups of {words} that leave none over, each in"
            " one node and of one kind; give others (--devices), or other degrees (--tensor-parallel)"
        )
    groups = _as_groups(cluster, best[1])
    sizes = [after - first for first, after in pairwise(best[1])]
    devices = tuple(
        replace(device, kind=_kind_of_group(device.kind, size), members=size)
        for device, size in zip(groups.devices, sizes, strict=True)
    )
    kinds = {device.kind for device in devices}
    origins = {_kind_of_group(kind, degree): origin for kind, origin in compute.origins.items() for degree in degrees}
    compute = replace(
        compute,
        seconds={kind: seconds for kind, seconds in table.items() if kind in kinds},
        origins={kind: origin for kind, origin in origins.items() if kind in kinds},
    )
    return replace(groups, devices=devices), compute, max(links.values(), key=_seconds_of)


def _kind_of_group(kind: str, degree: int) -> str:
    return f"{kind} x{degree}" if degree > 1 else kind


def _starts(cluster: Cluster, degree: int, kind: str) -> Iterator[int]:
    """The first devices of all groups of so many of one kind that are within a node and begin at a multiple."""
    for first in range(0, len(cluster.devices) - degree + 1, degree):
        some = cluster.devices[first : first + degree]
        if all(each.kind == kind and each.node == some[0].node for each in some):
            yield first


def _layouts(cluster: Cluster, degrees: Sequence[int]) -> Iterator[list[int]]:
    """The bounds of groups, at least one of each size, all of one size after those of another."""
    count = len(cluster.accelerators)
    key = [(device.kind, device.node) for device in cluster.devices]
    for order in permutations(degrees):
        numbers = [range(1, count // degree + 1) for degree in order[:-1]]
        for some in product(*(each[:: max(1, len(each) // LAYOUTS)] for each in numbers)):
            left = count - sum(number * degree for number, degree in zip(some, order, strict=False))
            if left <= 0 or left % order[-1]:
                continue
            bounds = [0]
            for number, degree in zip((*some, left // order[-1]), order, strict=True):
                bounds += [bounds[-1] + degree * (each + 1) for each in range(number)]
            if all(len(set(key[first:after])) == 1 for first, after in pairwise(bounds)):
                yield bounds


def with_exchanges(
    compute: ComputeTable, graph: OpGraph, link: Link, across: Link | None = None, *, measured: Lines = unmeasured,
    degree: int | None = None,
) -> ComputeTable:  # fmt: skip
    """Compute times with what members of a group exchange during them: steps of a link's latency, and bytes; and what
    they do with their counterparts in other inner groups, over ``across``. measured: see `exchange_links`; collectives
    between inner groups are not. degree: of the groups whose operators are meant, by default the graph's."""
    degree = degree or graph.tensor_parallel // graph.outer_degree
    inner = [(one.exchanged_bytes, one.exchange_steps) for one in graph.operators]
    compute = _with_sent(compute, graph, inner, link, degree, measured)
    if across is None:
        return compute
    outer = [(one.outer_bytes, one.outer_steps) for one in graph.operators]
    return _with_sent(compute, graph, outer, across, graph.outer_degree, unmeasured)


def _with_sent(
    compute: ComputeTable, graph: OpGraph, sent: Sequence[tuple[Bytes, int]], link: Link, degree: int, measured: Lines
) -> ComputeTable:
    """sent: of every operator the bytes, and messages one after the other, along one axis of so many members."""
    samples = np.array(compute.samples, dtype=np.float64)
    fixed, per_sample = (np.array(some) for some in zip(*((b.fixed, b.per_sample) for b, _ in sent), strict=True))
    steps = np.array([steps for _, steps in sent], dtype=np.float64)
    rings = np.array([one.exchanges and exchange_kind(one) == RING for one in graph.operators], dtype=bool)
    nbytes = fixed[:, None] + per_sample[:, None] * samples
    seconds = {}
    for kind, table in compute.seconds.items():
        others, sums = exchange_links(kind, degree, link, measured)
        adds = (steps >= all_reduce_steps(degree)) & ~rings
        latency = np.where(adds, sums.latency_s, others.latency_s)
        rate = np.where(adds, sums.bandwidth_bytes_per_s, others.bandwidth_bytes_per_s)
        seconds[kind] = table + exchange_s(steps[:, None], latency[:, None], nbytes, rate[:, None])
    return replace(compute, seconds=seconds)


def all_reduce_steps(members: int) -> int:
    """Messages that a member sends for an all-reduce round a ring, one after the other: twice those of other
    collectives."""
    return 2 * (members - 1)


def exchange_s(steps: Amount, latency_s: Amount, nbytes: Amount, bandwidth_bytes_per_s: Amount) -> Amount:
    """Seconds of an exchange among members of a group: numbers, or arrays of them.

    steps: messages, one after the other. nbytes: that a member sends in them.
    """
    return steps * latency_s + nbytes / bandwidth_bytes_per_s


def exchange_links(kind: str, degree: int, link: Link, measured: Lines) -> tuple[Link, Link]:
    """What members of a group exchange over: all but all-reduces, and these, which are what a member sends twice as
    often for as it has fellows. measured: the lines through collectives of as many devices of the kind, where they were
    measured; else over ``link``."""
    lines = [measured(kind, one, degree) for one in ("reduce_scatter", "all_reduce")]
    others, sums = (
        link
        if line is None
        else replace(link, latency_s=line.latency_s, bandwidth_bytes_per_s=line.bandwidth_bytes_per_s)
        for line in lines
    )
    return others, sums
