"""Graphs, clusters and plans as columns: what the kernels of the evaluation read, made once per value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Bools, Floats, Ints, starts
from solvers.kernels.links_kernel import NO_LINK, LinkTable
from solvers.plan.plan import ACTION_KINDS, Plan
from solvers.problem.cluster import Cluster
from solvers.problem.graph import OpGraph, Phase, per_graph
from solvers.problem.links import Tiers, Wire

PHASES = tuple(Phase)
"""A phase's number is its position here: forward, gradients of inputs, of parameters, update."""
FORWARD, UPDATE = PHASES.index(Phase.FORWARD), PHASES.index(Phase.UPDATE)


class GraphColumns(NamedTuple):
    """An operator graph. A message is a tensor, or a sum group of them, that travels as one."""

    phase: Ints
    """[operators] position in PHASES"""
    forward_of: Ints
    """[operators] -1 for those that mirror none"""
    trained_bytes: Floats
    """[operators] B of parameters that have a gradient"""
    frozen_bytes: Floats
    """[operators] B of those that have none"""
    factorable_bytes: Floats
    """[operators] B by which Adafactor's states are smaller than the parameters"""
    buffer_bytes: Floats
    """[operators] B of the module's buffers"""
    gradient_sum_bytes: Floats
    """[operators] B of gradients that are added up apart"""
    saved_bytes: Floats
    """[operators, 2] B fixed, B per sample"""
    workspace_bytes: Floats
    """[operators, 2] B fixed, B per sample"""
    output_start: Ints
    """[operators + 1] into output"""
    output: Ints
    """tensors that each operator makes"""
    input_start: Ints
    """[operators + 1] into input"""
    input: Ints
    """tensors that each operator reads"""
    tensor_bytes: Floats
    """[tensors, 2] B fixed, B per sample"""
    sum_group: Ints
    """[tensors] -1 for those that are not partial gradients"""
    consumer_start: Ints
    """[tensors + 1] into consumer"""
    consumer: Ints
    """operators that read each tensor"""
    message_tensor: Ints
    """[messages] the first tensor of each"""
    maker_start: Ints
    """[messages + 1] into maker"""
    maker: Ints
    """operators that make each message"""
    reader_start: Ints
    """[messages + 1] into reader"""
    reader: Ints
    """operators that read each message"""
    message_ends: Ints
    """[messages] equal for messages that the same operators make and the same operators read"""


@per_graph
def graph_columns(graph: OpGraph) -> GraphColumns:
    """The columns of a graph, made when first asked for."""
    operators, tensors = graph.operators, graph.tensors
    number = {phase: i for i, phase in enumerate(PHASES)}
    makers = [tuple(tensors[t].producer for t in group) for group in graph.messages]
    readers = [tensors[group[0]].consumers for group in graph.messages]
    ends: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    pairs = zip(makers, readers, strict=True)
    output_start, output = rows_of(graph.outputs)
    input_start, inputs = rows_of(graph.inputs)
    consumer_start, consumer = rows_of([tensor.consumers for tensor in tensors])
    maker_start, maker = rows_of(makers)
    reader_start, reader = rows_of(readers)
    return GraphColumns(
        phase=_ints(number[o.phase] for o in operators),
        forward_of=_ints(-1 if o.forward_of is None else o.forward_of for o in operators),
        trained_bytes=np.array([o.trained_bytes for o in operators], np.float64),
        frozen_bytes=np.array([o.frozen_bytes for o in operators], np.float64),
        factorable_bytes=np.array([o.factorable_bytes for o in operators], np.float64),
        buffer_bytes=np.array([o.buffer_bytes for o in operators], np.float64),
        gradient_sum_bytes=np.array([o.gradient_sum_bytes for o in operators], np.float64),
        saved_bytes=_amounts([(o.saved_bytes.fixed, o.saved_bytes.per_sample) for o in operators]),
        workspace_bytes=_amounts([(o.workspace_bytes.fixed, o.workspace_bytes.per_sample) for o in operators]),
        output_start=output_start,
        output=output,
        input_start=input_start,
        input=inputs,
        tensor_bytes=_amounts([(t.nbytes.fixed, t.nbytes.per_sample) for t in tensors]),
        sum_group=_ints(-1 if t.sum_group is None else t.sum_group for t in tensors),
        consumer_start=consumer_start,
        consumer=consumer,
        message_tensor=_ints(group[0] for group in graph.messages),
        maker_start=maker_start,
        maker=maker,
        reader_start=reader_start,
        reader=reader,
        message_ends=_ints(
            ends.setdefault((tuple(sorted(made)), tuple(sorted(read))), len(ends)) for made, read in pairs
        ),
    )


class ClusterColumns(NamedTuple):
    """Links between devices, and what devices are."""

    links: LinkTable
    is_cpu: NDArray[np.bool_]
    """[devices]"""


def cluster_columns(cluster: Cluster) -> ClusterColumns:
    """The columns of a cluster, made when first asked for."""
    if not cluster._derived:
        cpu = np.array([device.is_cpu for device in cluster.devices])
        tiers = cluster.links if isinstance(cluster.links, Tiers) else None
        cluster._derived.append(ClusterColumns(_pair_table(cluster) if tiers is None else _tier_table(tiers), cpu))
    columns: ClusterColumns = cluster._derived[0]
    return columns


def _pair_table(cluster: Cluster) -> LinkTable:
    """The table of links that are given one by one: every device is a node and a group, every pair a class."""
    count = len(cluster)
    place = np.arange(count)
    between = 1 + place[:, None] * count + place  # where there is no link, too: stated times need none
    latency, bandwidth = np.full(1 + count * count, np.inf), np.zeros(1 + count * count)
    whole, first = np.zeros(1 + count * count, np.int64), dict[str, int]()
    for pair in range(count * count):
        src, dst = divmod(pair, count)
        link = cluster.link(src, dst)
        whole[1 + pair] = first.setdefault(link.resource if link and link.resource else f"{src}->{dst}", pair)
        if link is not None:
            latency[1 + pair], bandwidth[1 + pair] = link.latency_s, link.bandwidth_bytes_per_s
    whole[0] = 0
    rule = np.zeros(len(whole), np.int64)
    rule[0] = 1
    head, tail = np.zeros((2, count), np.int64), np.zeros((2, count), np.int64)
    head[1], tail[1] = place * count, place
    return LinkTable(place, place, np.zeros(count, np.int64), between, latency, bandwidth, rule, whole, head, tail)


def _tier_table(tiers: Tiers) -> LinkTable:
    """The table of links by class."""
    count = len(tiers.numbers)
    group, place = _ints(tiers.groups), np.arange(count)
    node = np.unique(_ints(tiers.nodes), return_inverse=True)[1].astype(np.int64).reshape(-1)
    distinct = dict.fromkeys(of for of in (*tiers.within, *(one for row in tiers.between for one in row)) if of)
    number = {of: i for i, of in enumerate(distinct, start=1)}
    rules = tuple(Wire)
    first = np.full(int(node.max(initial=0)) + 1, count)
    np.minimum.at(first, node, place)
    head, tail = np.zeros((len(rules), count), np.int64), np.zeros((len(rules), count), np.int64)
    for rule, wire in enumerate(rules):
        match wire:
            case Wire.PAIR:
                head[rule], tail[rule] = place * count, place
            case Wire.NODES:
                head[rule], tail[rule] = first[node] * count, first[node]
            case Wire.PORT | Wire.HOST:
                head[rule] = _first_inside(node, first[node] if wire is Wire.HOST else place, count)
            case Wire.ADAPTER | Wire.NODE:
                joins = np.array([[of is not None and of.wire is wire for of in row] for row in tiers.between])
                head[rule] = _first_outside(node, group, first, joins, first[node] if wire is Wire.NODE else place)
    return LinkTable(
        node,
        group,
        _ints(0 if of is None else number[of] for of in tiers.within),
        np.array([[0 if of is None else number[of] for of in row] for row in tiers.between], np.int64),
        np.array([np.inf, *(of.latency_s for of in distinct)]),
        np.array([0.0, *(of.bandwidth_bytes_per_s for of in distinct)]),
        _ints([rules.index(Wire.PAIR), *(rules.index(of.wire) for of in distinct)]),
        np.zeros(1 + len(distinct), np.int64),
        head,
        tail,
    )


def _first_inside(node: Ints, src: Ints, count: int) -> Ints:
    """[devices] The number of the pair of ``src`` with the first other device of its node."""
    order = np.argsort(node, kind="stable")
    begin = np.searchsorted(node[order], node)
    least = order[begin]
    after = order[np.minimum(begin + 1, count - 1)]  # of a node with one device no pair
    return np.asarray(src * count + np.where(src == least, after, least))


def _first_outside(node: Ints, group: Ints, first: Ints, joins: Bools, src: Ints) -> Ints:
    """[devices] The number of the pair of ``src`` with the first device of another node whose group it ``joins``,
    [groups, groups]."""
    group_of = group[first]
    pair = np.zeros(len(node), np.int64)
    for here in range(len(joins)):
        there = np.sort(first[joins[here][group_of]])[:2]
        members = np.flatnonzero(group == here)
        if len(there):
            other = there[-1]
            pair[members] = src[members] * len(node) + np.where(node[members] == node[there[0]], other, there[0])
    return pair


class Pairs(NamedTuple):
    """The links between some devices, pair by pair."""

    latency_s: Floats
    """[devices, devices] s, inf where there is no link"""
    bandwidth: Floats
    """[devices, devices] B/s, 0 where there is no link"""
    wire: Ints
    """[devices, devices] the resource, whether or not there is a link, from 0 up in the order of the pairs"""


def pairs_of(cluster: Cluster, devices: int) -> Pairs:
    """The links between the first so many devices of a cluster, of which there must be few."""
    table, place = cluster_columns(cluster).links, np.arange(devices)
    node, group = table.node[:devices], table.group[:devices]
    link = np.where(node[:, None] == node, table.within[group][:, None], table.between[group[:, None], group])
    np.fill_diagonal(link, NO_LINK)
    rule = table.rule[link]
    wire = table.whole[link] + table.head[rule, place[:, None]] + table.tail[rule, place]
    number = np.unique(wire, return_inverse=True)[1].reshape(devices, devices)
    return Pairs(table.latency_s[link], table.bandwidth[link], number.astype(np.int64))


def wire_name(cluster: Cluster, wire: int) -> str:
    """The name of a wire by its number: see `LinkTable`."""
    src, dst = divmod(wire, len(cluster))
    link = cluster.link(src, dst)
    return link.resource if link is not None and link.resource else f"{src}->{dst}"


def wire_names(cluster: Cluster) -> Iterator[str]:
    """The names of all wires between two devices, in the order of their numbers."""
    count = len(cluster)
    pairs = ((src, dst) for src in range(count) for dst in range(count) if src != dst)
    seen = set()
    for src, dst in pairs:
        name = wire_name(cluster, src * count + dst)
        if name not in seen:
            seen.add(name)
            yield name


def has_wire(cluster: Cluster, name: str) -> bool:
    """Whether a wire between two devices has this name."""
    if isinstance(cluster.links, Tiers):
        return cluster.links.first_on(name) is not None
    return name in wire_names(cluster)


def best_of_links(cluster: Cluster, *, between: bool = False) -> tuple[float, float]:
    """The shortest latency, s, and the largest bandwidth, B/s, of all links, or of those ``between`` nodes; 0 and inf
    where there is none."""
    some = [speed for speed in cluster.speeds if not (between and speed.inside)]
    if not some:
        return 0.0, np.inf
    return min(speed.latency_s for speed in some), max(speed.bandwidth_bytes_per_s for speed in some)


class PlanColumns(NamedTuple):
    """The stages and the order of a plan."""

    operator: Ints
    """operators of all stages, stage by stage in their order"""
    stage: Ints
    """the stage of each of these"""
    device_start: Ints
    """[stages + 1] into device"""
    device: Ints
    """devices of each stage"""
    micro_batch_size: Ints
    """[stages] samples"""
    recompute: NDArray[np.bool_]
    """[stages]"""
    order_start: Ints
    """[devices + 1] into the actions"""
    action_stage: Ints
    """actions of all devices in their order"""
    action_kind: Ints
    """position in ACTION_KINDS"""
    action_micro_batch: Ints
    """of the stage"""
    message_start: Ints
    """[links with a stated order + 1] into message"""
    message: Ints
    """[5, messages] stage, kind, micro-batch, receiver and number of what crosses these links, in their order"""


_STAGE, _KIND, _MICRO_BATCH = attrgetter("stage"), attrgetter("kind"), attrgetter("micro_batch")


def plan_columns(plan: Plan) -> PlanColumns:
    """The columns of a plan, made when first asked for."""
    if not plan._derived:
        number = {kind: i for i, kind in enumerate(ACTION_KINDS)}
        members_start, members = rows_of([stage.operators for stage in plan.stages])
        device_start, device = rows_of([stage.devices for stage in plan.stages])
        actions = [action for row in plan.order for action in row]
        plan._derived.append(
            PlanColumns(
                operator=members,
                stage=np.repeat(np.arange(len(plan.stages)), np.diff(members_start)),
                device_start=device_start,
                device=device,
                micro_batch_size=_ints(stage.micro_batch_size for stage in plan.stages),
                recompute=np.array([stage.recompute for stage in plan.stages], np.bool_),
                order_start=starts(map(len, plan.order)),
                action_stage=np.array(list(map(_STAGE, actions)), np.int64),
                action_kind=np.array(list(map(number.__getitem__, map(_KIND, actions))), np.int64),
                action_micro_batch=np.array(list(map(_MICRO_BATCH, actions)), np.int64),
                message_start=starts(len(row) for _, row in plan.messages),
                message=np.array(
                    [
                        (m.action.stage, number[m.action.kind], m.action.micro_batch, m.to_device, m.number)
                        for _, row in plan.messages
                        for m in row
                    ],
                    np.int64,
                )
                .reshape(-1, 5)
                .T,
            )
        )
    columns: PlanColumns = plan._derived[0]
    return columns


def rows_of(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Lists of numbers as (start, items): row i is ``items[start[i]:start[i + 1]]``."""
    return starts(map(len, rows)), np.array([item for row in rows for item in row], np.int64)


def _ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)


def _amounts(pairs: Sequence[tuple[float, float]]) -> Floats:
    return np.array(pairs, np.float64).reshape(-1, 2)
