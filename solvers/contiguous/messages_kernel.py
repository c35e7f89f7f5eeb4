"""Directed messages of a set of nodes that grows and shrinks: which of them it sends and which it receives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.coarsening.contracted import Shape
from solvers.coarsening.traffic import Traffic
from solvers.contiguous.lattice_kernel import Lattice, holds
from solvers.kernels.arrays import Ints
from solvers.kernels.uncounted import inlined

MAKES, READS = 1, 2
"""What a node is to a message; their sum if it is both."""


class Messages(NamedTuple):
    """Who makes and who reads what; several makers have partial sums.

    node_start, node_message, node_role: the messages that a node is on, and whether it MAKES them, READS them or both.
    maker_start, makers, reader_start, readers: a message's nodes.
    """

    node_start: Ints
    node_message: Ints
    node_role: Ints
    maker_start: Ints
    makers: Ints
    reader_start: Ints
    readers: Ints


class Ends(NamedTuple):
    """The messages' ends in a set and in the downset J behind it, [messages].

    made, read: makers and readers in the set. behind: MAKES + READS, whether there are makers and readers in J.
    """

    made: Ints
    read: Ints
    behind: Ints


def messages_of(traffic: Traffic) -> Messages:
    """The kernels' view of a traffic."""
    roles: list[dict[int, int]] = [{} for _ in range(traffic.nodes)]
    for role, ends in ((MAKES, traffic.makers), (READS, traffic.readers)):
        for message in range(len(ends)):
            for node in ends[message].tolist():
                roles[node][message] = roles[node].get(message, 0) + role
    start = np.zeros(len(roles) + 1, np.int64)
    np.cumsum([len(on) for on in roles], out=start[1:])
    flat = np.array([pair for on in roles for pair in sorted(on.items())], np.int64).reshape(-1, 2)
    makers, readers = traffic.makers, traffic.readers
    return Messages(
        start,
        np.ascontiguousarray(flat[:, 0]),
        np.ascontiguousarray(flat[:, 1]),
        makers.start,
        makers.items,
        readers.start,
        readers.items,
    )


def nets_of(shape: Shape) -> Messages:
    """Hyperedges as messages all of whose ends count as makers."""
    on, pins = shape.nets_of, shape.net_pins
    nobody = np.zeros(0, np.int64)
    roles, none_reads = np.full(len(on.items), MAKES, np.int64), np.zeros(len(pins) + 1, np.int64)
    return Messages(on.start, on.items, roles, pins.start, pins.items, none_reads, nobody)


def no_ends(messages: int) -> Ends:
    """Of an empty set behind an empty downset."""
    return Ends(*(np.zeros(messages, np.int64) for _ in Ends._fields))


@inlined
def look_behind(source: int, lattice: Lattice, messages: Messages, ends: Ends) -> None:
    """Note which messages ``source`` makes and reads."""
    for m in range(len(ends.behind)):
        ends.behind[m] = 0
        for i in range(messages.maker_start[m], messages.maker_start[m + 1]):
            if holds(lattice.words, source, messages.makers[i]):
                ends.behind[m] |= MAKES
                break
        for i in range(messages.reader_start[m], messages.reader_start[m + 1]):
            if holds(lattice.words, source, messages.readers[i]):
                ends.behind[m] |= READS
                break


@inlined
def settles(ends: Ends, m: int, role: int) -> tuple[bool, bool]:
    """Whether a node that is not in the set yet makes it send, or receive, message ``m`` whatever joins later: the
    other end is behind it."""
    sends = role & MAKES and ends.behind[m] & READS and ends.made[m] == 0
    receives = role & READS and ends.behind[m] & MAKES and ends.read[m] == 0
    return bool(sends), bool(receives)


@inlined
def join(messages: Messages, ends: Ends, m: int, role: int) -> tuple[int, int]:
    """Add a node's role in message ``m`` to the set: how much more often (-1, 0, 1) it then sends and receives it."""
    all_makers = messages.maker_start[m + 1] - messages.maker_start[m]
    all_readers = messages.reader_start[m + 1] - messages.reader_start[m]
    sent = ends.made[m] > 0 and ends.read[m] < all_readers
    received = ends.read[m] > 0 and ends.made[m] < all_makers
    ends.made[m] += role & MAKES
    ends.read[m] += role >> 1
    sends = ends.made[m] > 0 and ends.read[m] < all_readers
    receives = ends.read[m] > 0 and ends.made[m] < all_makers
    return int(sends) - int(sent), int(receives) - int(received)


@inlined
def join_undirected(messages: Messages, ends: Ends, m: int) -> int:
    """Add a node to the set, where all ends of message ``m`` count as makers: how much more often (-1, 0, 1) the set
    then splits it."""
    ends.made[m] += 1
    return int(ends.made[m] == 1) - int(ends.made[m] == messages.maker_start[m + 1] - messages.maker_start[m])


@inlined
def leave(messages: Messages, ends: Ends, v: int) -> None:
    """Take a node out of the set again."""
    for t in range(messages.node_start[v], messages.node_start[v + 1]):
        ends.made[messages.node_message[t]] -= messages.node_role[t] & MAKES
        ends.read[messages.node_message[t]] -= messages.node_role[t] >> 1
