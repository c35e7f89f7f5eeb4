"""Enumerating downsets as bitsets, with their cover relations.

The whole state is in arrays, and a call returns after a bounded amount of work, so that the caller can look at the
clock and a stop signal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Floats, Ints, Words
from solvers.kernels.lazy import njit

Ids = NDArray[np.int32]

DONE, PAUSED, NEEDS_ROOM, OVER_BUDGET = 0, 1, 2, 3


class Order(NamedTuple):
    """A partial order: element i comes after before[before_start[i]:before_start[i + 1]], and so on.

    `walk_kernel` needs every element to have a smaller number than those it comes after.
    """

    before_start: Ints
    before: Ints
    after_start: Ints
    after: Ints


class Growing(NamedTuple):
    """The lattice while it grows; the first ``count`` rows (``relations`` entries) are in use.

    words: [downsets, words] bitset. key: [downsets] hash, the xor of the members' random keys.
    parent, via: the downset it was first reached from, and the element added. up_start, up_element,
    up_to: cover relations, downset i goes up by up_element[e] (ascending) to up_to[e]. table: open
    addressing.
    """

    words: Words
    key: Words
    parent: Ids
    via: Ids
    up_start: Ints
    up_element: Ids
    up_to: Ids
    table: Ids


@njit(cache=True)
def file_keys(table: Ids, key: Words, first: int, end: int) -> None:
    """Put the downsets from ``first`` to ``end`` into a table whose size is a power of two."""
    mask = np.uint64(len(table) - 1)
    for i in range(first, end):
        slot = np.int64(key[i] & mask)
        while table[slot] >= 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = i


@njit(cache=True)
def _sort(items: Ids, first: int, end: int) -> None:
    """Insertion sort of items[first:end]: it is short and nearly sorted."""
    for i in range(first + 1, end):
        item = items[i]
        j = i
        while j > first and items[j - 1] > item:
            items[j] = items[j - 1]
            j -= 1
        items[j] = item


@njit(cache=True)
def expand(order: Order, element_key: Words, at: Growing, cursor: Ints, budget: int, quota: int) -> int:
    """Go on with the enumeration, smaller downsets first, for about ``quota`` relations.

    cursor: [next downset to expand, count, relations], updated. Returns DONE, PAUSED, NEEDS_ROOM (the
    caller must enlarge the arrays) or OVER_BUDGET (more than ``budget`` downsets).
    """
    words, key, parent, via, up_start, up_element, up_to, table = at
    elements = len(element_key)
    width = words.shape[1]
    mask = np.uint64(len(table) - 1)
    current, count, relations = cursor[0], cursor[1], cursor[2]
    stop = relations + quota
    while current < count:
        room = count + elements < len(key) and relations + elements < len(up_to)
        if not room or 2 * (count + elements) > len(table):
            cursor[0], cursor[1], cursor[2] = current, count, relations
            return NEEDS_ROOM
        if relations >= stop:
            cursor[0], cursor[1], cursor[2] = current, count, relations
            return PAUSED
        # What can be added: what the parent could add, and what its last element has set free.
        first = relations
        if current == 0:
            for v in range(elements):
                if order.before_start[v] == order.before_start[v + 1]:
                    up_element[relations] = v
                    relations += 1
        else:
            last = via[current]
            for e in range(up_start[parent[current]], up_start[parent[current] + 1]):
                if up_element[e] != last:
                    up_element[relations] = up_element[e]
                    relations += 1
            for e in range(order.after_start[last], order.after_start[last + 1]):
                v = order.after[e]
                free = True
                for q in range(order.before_start[v], order.before_start[v + 1]):
                    u = order.before[q]
                    if (words[current, u >> 6] >> np.uint64(u & 63)) & np.uint64(1) == np.uint64(0):
                        free = False
                        break
                if free:
                    up_element[relations] = v
                    relations += 1
        up_start[current] = first
        up_start[current + 1] = relations
        _sort(up_element, first, relations)
        for e in range(first, relations):
            v = up_element[e]
            word, bit = v >> 6, np.uint64(1) << np.uint64(v & 63)
            wanted = key[current] ^ element_key[v]
            slot = np.int64(wanted & mask)
            while True:
                target = table[slot]
                if target < 0:
                    break
                if key[target] == wanted:
                    same = True
                    for w in range(width):
                        expected = words[current, w] | bit if w == word else words[current, w]
                        if words[target, w] != expected:
                            same = False
                            break
                    if same:
                        break
                slot = (slot + 1) & (len(table) - 1)
            if target < 0:
                if count >= budget:
                    return OVER_BUDGET
                target = count
                count += 1
                for w in range(width):
                    words[target, w] = words[current, w]
                words[target, word] |= bit
                key[target] = wanted
                parent[target] = current
                via[target] = v
                table[slot] = target
            up_to[e] = target
        current += 1
    cursor[0], cursor[1], cursor[2] = current, count, relations
    return DONE


@njit(cache=True)
def add_up(parent: Ids, via: Ids, weight: Floats) -> Floats:
    """The total weight of every downset."""
    total = np.zeros(len(parent))
    for i in range(1, len(parent)):
        total[i] = total[parent[i]] + weight[via[i]]
    return total


class Lattice(NamedTuple):
    """What a walk reads of a finished lattice: see ``Growing``."""

    words: Words
    up_start: Ints
    up_element: Ids
    up_to: Ids


@njit(cache=True)
def holds(words: Words, downset: int, element: int) -> bool:
    """Whether an element is in a downset."""
    return bool((words[downset, element >> 6] >> np.uint64(element & 63)) & np.uint64(1))
