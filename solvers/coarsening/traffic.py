"""Directed messages between super-operators: who sends what to whom, in which pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from solvers.evaluation.columns import rows_of
from solvers.kernels.arrays import Bools, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """A list of integer lists as two arrays: row i is ``items[start[i]:start[i + 1]]``."""

    start: Ints
    items: Ints

    @staticmethod
    def of(rows: Sequence[Sequence[int]]) -> Rows:
        return Rows(*rows_of(rows))

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, row: int) -> Ints:
        return self.items[self.start[row] : self.start[row + 1]]

    def lists(self) -> list[list[int]]:
        return [self[row].tolist() for row in range(len(self))]


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Messages between super-operators, equal ones added up.

    makers, readers: super-operators of each message, ascending (several makers: partial sums that
    are added where they are made). backward: whether it belongs to the backward pass, [messages].
    messages_of: the messages each super-operator is on. A set S on an accelerator sends a message
    if it has a maker and some reader is outside, and receives it if it has a reader and some maker
    is outside; CPUs pay for neither.
    """

    makers: Rows
    readers: Rows
    backward: Bools
    messages_of: Rows = field(init=False)
    nodes: int

    def __post_init__(self) -> None:
        on: list[set[int]] = [set() for _ in range(self.nodes)]
        for ends in (self.makers, self.readers):
            for message in range(len(ends)):
                for node in ends[message]:
                    on[node].add(message)
        object.__setattr__(self, "messages_of", Rows.of([sorted(messages) for messages in on]))

    def __len__(self) -> int:
        return len(self.makers)

    def crossing(self, inside: Bools) -> tuple[Bools, Bools]:
        """(sent, received): which messages a device that holds the nodes ``inside`` pays for, [messages]."""
        makes, misses_maker = _some(self.makers, inside), _some(self.makers, ~inside)
        reads, misses_reader = _some(self.readers, inside), _some(self.readers, ~inside)
        return makes & misses_reader, reads & misses_maker


def _some(rows: Rows, chosen: Bools) -> Bools:
    """For every row, whether one of its items is chosen. No row is empty."""
    if not len(rows):
        return np.zeros(0, bool)
    return np.logical_or.reduceat(chosen[rows.items], rows.start[:-1])


def traffic_of(messages: Sequence[tuple[tuple[int, ...], tuple[int, ...], bool]], nodes: int) -> Traffic:
    """The traffic of messages given as (makers, readers, backward)."""
    makers, readers = Rows.of([made for made, _, _ in messages]), Rows.of([read for _, read, _ in messages])
    return Traffic(makers, readers, np.array([backward for _, _, backward in messages], bool), nodes)
