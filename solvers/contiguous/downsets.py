"""The lattice of downsets of a partial order.

A downset ("ideal") is a set that holds everything before each of its members. A chain of downsets
cuts the graph into parts whose quotient is acyclic: what a pipeline can run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.coarsening.contracted import Shape
from solvers.coarsening.traffic import Rows
from solvers.contiguous.lattice_kernel import (
    DONE,
    NEEDS_ROOM,
    OVER_BUDGET,
    Growing,
    Lattice,
    Order,
    expand,
    file_keys,
)
from solvers.contiguous.walk_kernel import Climb, Stack, new_stack

PAIRS_A_CALL = 400_000
"""Pairs, or words of relations, per kernel call: a few hundredths of a second."""
DOWNSETS_A_CALL = 100_000
TABLE_BYTES = 4 * 2**30
"""Memory the dynamic program's table may take."""

Check = Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False)
class Downsets:
    """All downsets, by size. words: [downsets, words], element v is bit v % 64 of word v // 64.

    parent, via: a downset one smaller, and the element it lacks. up: the cover relations.
    """

    words: NDArray[np.uint64]
    parent: NDArray[np.int32]
    via: NDArray[np.int32]
    up: Lattice

    def __len__(self) -> int:
        return len(self.words)

    def difference(self, larger: int, smaller: int) -> tuple[int, ...]:
        """The elements of one downset that are not in another, ascending."""
        words = self.words[larger] & ~self.words[smaller]
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        return tuple(np.flatnonzero(bits).tolist())


def enumerate_downsets(order: Order, budget: int, check: Check) -> Downsets | None:
    """Every downset of ``order``, or None if there are more than ``budget``. Calls ``check`` often."""
    elements = len(order.before_start) - 1
    element_key = np.random.default_rng(0).integers(1, 2**63, elements, dtype=np.uint64)
    at = _room((elements + 63) // 64, 4 * elements + 1024, 8 * elements + 4096)
    at.parent[0] = at.via[0] = -1
    quota = PAIRS_A_CALL // at.words.shape[1]  # a relation costs a look at every word
    cursor = np.array([0, 1, 0], np.int64)
    file_keys(at.table, at.key, 0, 1)
    while True:
        check()
        status = expand(order, element_key, at, cursor, budget, quota)
        if status == OVER_BUDGET:
            return None
        if status == NEEDS_ROOM:
            at = _enlarged(at, int(cursor[1]), int(cursor[2]), elements, check)
        if status == DONE:
            count, relations = int(cursor[1]), int(cursor[2])
            up = Lattice(at.words[:count], at.up_start[: count + 1], at.up_element[:relations], at.up_to[:relations])
            return Downsets(at.words[:count], at.parent[:count], at.via[:count], up)


def _room(width: int, downsets: int, relations: int) -> Growing:
    table = 1 << (2 * downsets).bit_length()
    return Growing(
        np.zeros((downsets, width), np.uint64),
        np.zeros(downsets, np.uint64),
        np.zeros(downsets, np.int32),
        np.zeros(downsets, np.int32),
        np.zeros(downsets + 1, np.int64),
        np.zeros(relations, np.int32),
        np.zeros(relations, np.int32),
        np.full(table, -1, np.int32),
    )


def _enlarged(at: Growing, count: int, relations: int, elements: int, check: Check) -> Growing:
    """The same lattice with room for at least one more expansion; full arrays are doubled."""
    more = 2 * len(at.key) if count + elements >= len(at.key) else len(at.key)
    larger = 2 * len(at.up_to) if relations + elements >= len(at.up_to) else len(at.up_to)
    new = _room(at.words.shape[1], more, larger)
    arrays: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(new[:-1], at[:-1], strict=True)  # the table is last
    for to, array in arrays:
        to[: len(array)] = array
    for first, end in slices(count, check):
        file_keys(new.table, new.key, first, end)
    return new


def order_of(pairs: Iterable[tuple[int, int]], elements: int) -> Order:
    """The order in which the first of every pair comes before the second."""
    before: list[list[int]] = [[] for _ in range(elements)]
    after: list[list[int]] = [[] for _ in range(elements)]
    for u, v in sorted(set(pairs)):
        after[u].append(v)
        before[v].append(u)
    earlier, later = Rows.of(before), Rows.of(after)
    return Order(earlier.start, earlier.items, later.start, later.items)


def suffix_order(shape: Shape) -> Order:
    """The order whose downsets are the suffixes of a pipeline: the forward graph, reversed."""
    return Order(shape.successors.start, shape.successors.items, shape.predecessors.start, shape.predecessors.items)


def slices(count: int, check: Check) -> Iterator[tuple[int, int]]:
    """Ranges of downsets that a kernel goes through in a few hundredths of a second; calls ``check`` between them."""
    for first in range(0, count, DOWNSETS_A_CALL):
        check()
        yield first, min(first + DOWNSETS_A_CALL, count)


def unreached(shape: tuple[int, ...], check: Check) -> NDArray[np.float64]:
    """A table of loads, by downset first, of which none is known yet. Calls ``check`` often."""
    table = np.empty(shape)
    for first, end in slices(shape[0], check):
        table[first:end] = np.inf
    return table


def most_downsets(states: int, passes: int, ways: int) -> int:
    """The number of downsets for which the dynamic program's table can be held."""
    return min(TABLE_BYTES // ((8 * passes + 4) * states), 2**31 // ways - 1)


def finish(walk: Climb, downsets: Downsets, objective: Any, states: int, quota: int, check: Check) -> Stack:
    """Run a walk to its end, calling ``check`` before every ``quota`` pairs; returns its stack, for what it counted."""
    stack = new_stack(downsets.words.shape[1] * 64, states)
    check()
    while walk(downsets.up, stack, objective, quota) != DONE:
        check()
    return stack
