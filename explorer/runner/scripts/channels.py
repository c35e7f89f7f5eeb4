"""Which forward tensors go from which segment to which device, in which pieces. No torch here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from explorer.runner.scripts.script import Channel, Piece, Segment
from solvers.errors import RunError
from solvers.problem.graph import BACKWARD_PHASES, OpGraph, Phase, per_graph

Place = tuple[tuple[int, ...], int]
"""Devices of a replica group and the size of their micro-batches."""


@dataclass(frozen=True, slots=True)
class Route:
    """A forward tensor that one unit makes and another reads; consumers: the operators that read it there."""

    tensor: int
    source: int
    reader: int
    consumers: tuple[int, ...]


@per_graph
def gradients_of(graph: OpGraph) -> tuple[frozenset[int], ...]:
    """Per tensor the consumers that send a gradient back over it; none for tensors of the backward.

    From the graph alone: the gradient of a forward tensor is one tensor from the input-gradient operator
    of every such consumer to the backward operators of the producer, of the same size, and these follow
    the order of the forward tensors of one producer. Raises RunError for a graph whose backward is not such a
    mirror image.
    """
    operators = graph.operators
    forward: dict[int, list[int]] = defaultdict(list)
    for position, tensor in enumerate(graph.tensors):
        if operators[tensor.producer].phase is Phase.FORWARD and _forward_readers(graph, position):
            forward[tensor.producer].append(position)
    senders_of: list[frozenset[int]] = [frozenset()] * len(graph.tensors)
    last: dict[int, int] = {}
    for message in graph.messages:
        first = graph.tensors[message[0]]
        phases = {operators[reader].phase for reader in first.consumers}
        if operators[first.producer].phase not in BACKWARD_PHASES or not phases <= BACKWARD_PHASES:
            continue
        senders = frozenset(_home(graph, graph.tensors[t].producer) for t in message)
        homes = {_home(graph, reader) for reader in first.consumers}
        candidates = [
            t
            for t in forward[min(homes)]
            if len(homes) == 1
            and senders <= set(graph.tensors[t].consumers)
            and _likeness(graph, t) == _likeness(graph, message[0])
            and not senders_of[t]
        ]
        later = [t for t in candidates if t > last.get(min(homes), -1)] or candidates
        if not later:
            raise RunError(
                f"what backward operator {operators[first.producer].name!r} sends is the gradient of no forward tensor;"
                " only graphs traced from a model can be run: trace it again"
            )
        match = first.sum_group if first.sum_group is not None and first.sum_group in later else later[0]
        senders_of[match] = senders
        last[min(homes)] = match
    return tuple(senders_of)


def _home(graph: OpGraph, operator: int) -> int:
    forward = graph.operators[operator].forward_of
    if forward is None:
        raise RunError(
            f"operator {graph.operators[operator].name!r} belongs to no forward operator; only graphs traced from a"
            " model can be run: trace it again"
        )
    return forward


def _likeness(graph: OpGraph, tensor: int) -> object:
    t = graph.tensors[tensor]
    return t.nbytes, t.shape, t.dtype


def _forward_readers(graph: OpGraph, tensor: int) -> tuple[int, ...]:
    return tuple(r for r in graph.tensors[tensor].consumers if graph.operators[r].phase is Phase.FORWARD)


def routes(graph: OpGraph, units: Sequence[Sequence[int]], devices: Sequence[tuple[int, ...]]) -> list[Route]:
    """How forward tensors get from the units that make them to those that read them.

    units: forward operators that run as one; devices: of each. A unit that holds a copy of a replicable
    producer reads its own; else the last copy on the same devices, else the first one. Tensors of 0 bytes are
    order only and go nowhere.
    """
    held_by: dict[int, list[int]] = defaultdict(list)
    for unit, operators in enumerate(units):
        for operator in operators:
            held_by[operator].append(unit)
    between = []
    for position, tensor in enumerate(graph.tensors):
        nbytes = tensor.nbytes
        if graph.operators[tensor.producer].phase is not Phase.FORWARD or not (nbytes.fixed or nbytes.per_sample):
            continue
        makers = held_by[tensor.producer]
        by_reader: dict[int, list[int]] = defaultdict(list)
        for consumer in tensor.consumers:
            if graph.operators[consumer].phase is not Phase.FORWARD:
                _refuse_saved(graph, position, consumer)
                continue
            for unit in held_by[consumer]:
                if unit not in makers:
                    by_reader[unit].append(consumer)
        for reader, consumers in sorted(by_reader.items()):
            near = [maker for maker in makers if devices[maker] == devices[reader]]
            between.append(Route(position, near[-1] if near else makers[0], reader, tuple(consumers)))
    return between


def _refuse_saved(graph: OpGraph, position: int, consumer: int) -> None:
    """What a backward operator keeps of the forward stays with its own forward operator."""
    producer = graph.tensors[position].producer
    if _home(graph, consumer) != producer:
        raise RunError(
            f"backward operator {graph.operators[consumer].name!r} reads a tensor of forward operator"
            f" {graph.operators[producer].name!r}, not of its own; only graphs traced from a model can be run"
        )


def channels_of(
    graph: OpGraph,
    segments: Sequence[Segment],
    gradients: Sequence[frozenset[int]],
    mini_batch: int,
    *,
    by_operator: bool = False,
) -> tuple[Channel, ...]:
    """All channels between segments, in a fixed order.

    Tensors of one source travel together where the same segments on other devices read them all (by_operator:
    where the same operators make and read them); what stays on its devices is handed over together where the
    same segments read it.
    """
    readers: dict[tuple[int, int], dict[Place, dict[int, tuple[int, ...]]]] = defaultdict(lambda: defaultdict(dict))
    for route in routes(graph, [s.operators for s in segments], [s.devices for s in segments]):
        reader = segments[route.reader]
        place = reader.devices, reader.micro_batch_size
        readers[route.tensor, route.source][place][route.reader] = route.consumers
    bundles: dict[tuple[object, ...], list[int]] = defaultdict(list)
    where: dict[tuple[object, ...], tuple[int, list[tuple[int, ...]]]] = {}
    for (tensor, source), places in readers.items():
        away: list[tuple[int, ...]] = []
        here: list[tuple[int, ...]] = []
        for place in sorted(places):
            group = tuple(sorted(places[place]))
            (here if _stays(segments[source], place) else away).append(group)
        ends: object = None
        if by_operator:
            ends = graph.tensors[tensor].producer, tuple(sorted(graph.tensors[tensor].consumers))
        for local, groups in [(False, away), *((True, [group]) for group in here)]:
            if groups:
                key = source, local, tuple(groups), None if local else ends
                bundles[key].append(tensor)
                where[key] = source, groups
    made = []
    for bundle, tensors in bundles.items():
        source, groups = where[bundle]
        for group in groups:
            sending = [
                {
                    reader
                    for of_place in readers[t, source].values()
                    for reader, consumers in of_place.items()
                    if reader in group and t < len(gradients) and not gradients[t].isdisjoint(consumers)
                }
                for t in tensors
            ]
            flows = tuple(bool(of_tensor) for of_tensor in sending)
            senders = tuple(sorted(set().union(*sending)))
            made += _between(segments, Channel(source, -1, -1, group, tuple(tensors), flows, (), senders), mini_batch)
    return tuple(sorted(made, key=lambda c: (c.source, c.src_device, c.dst_device, c.readers, c.tensors)))


def _stays(source: Segment, place: Place) -> bool:
    """Whether every sample is read on the device where it was made."""
    alike = source.micro_batch_size == place[1] or len(source.devices) == 1
    return source.devices == place[0] and alike


def _between(segments: Sequence[Segment], channel: Channel, mini_batch: int) -> list[Channel]:
    """The channel for each pair of replicas that share samples."""
    maker, reader = segments[channel.source], segments[channel.readers[0]]
    channels = []
    for p, src in enumerate(maker.devices):
        for q, dst in enumerate(reader.devices):
            pieces = tuple(_pieces(maker, p, reader, q, mini_batch))
            if pieces:
                channels.append(replace(channel, src_device=src, dst_device=dst, pieces=pieces))
    return channels


def _pieces(maker: Segment, p: int, reader: Segment, q: int, mini_batch: int) -> Iterator[Piece]:
    """Samples that replica p of ``maker`` makes and replica q of ``reader`` reads."""
    size = reader.micro_batch_size
    for i in range(mini_batch // maker.micro_batch_size):
        low = i * maker.micro_batch_size + p * maker.share
        high = low + maker.share
        for j in range(low // size, -(-high // size)):
            start = j * size + q * reader.share
            first, end = max(low, start), min(high, start + reader.share)
            if first < end:
                yield Piece(i, j, first, end - first)
