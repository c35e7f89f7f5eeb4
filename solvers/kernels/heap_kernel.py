"""Binary heaps on plain arrays: keys, and the items that they are of beside them.

A queue names each item's place: by its key, then by tie[item], or by the item itself where ``tie`` is None. Events of
one time have no order of their own: they come as the heap has them.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit

Keys = NDArray[Any]
"""Numbers."""
Items = NDArray[Any]
"""int64 or int32."""


@njit(cache=True)
def _before(item: int, other: int, tie: Ints | None) -> bool:
    if tie is None:
        return bool(item < other)
    return bool(tie[item] < tie[other])


@njit(cache=True)
def push(keys: Keys, items: Items, base: int, size: int, key: float, item: int, tie: Ints | None) -> None:
    """Insert into the queue of ``size`` items that lies in ``keys`` and ``items`` from ``base`` on."""
    node = size
    while node > 0:
        parent = (node - 1) >> 1
        above = keys[base + parent]
        if key > above or (key == above and _before(items[base + parent], item, tie)):
            break
        keys[base + node], items[base + node] = above, items[base + parent]
        node = parent
    keys[base + node], items[base + node] = key, item


@njit(cache=True)
def pop(keys: Keys, items: Items, base: int, size: int, tie: Ints | None) -> int:
    """Remove and return the first item of such a queue."""
    first = items[base]
    size -= 1
    key, item = keys[base + size], items[base + size]
    node = 0
    while 2 * node + 1 < size:
        child = 2 * node + 1
        below = keys[base + child]
        if child + 1 < size:
            beside = keys[base + child + 1]
            if beside < below or (beside == below and _before(items[base + child + 1], items[base + child], tie)):
                child += 1
                below = beside
        if key < below or (key == below and _before(item, items[base + child], tie)):
            break
        keys[base + node], items[base + node] = below, items[base + child]
        node = child
    keys[base + node], items[base + node] = key, item
    return int(first)


@njit(cache=True)
def push_event(times: Floats, items: Items, size: int, time: float, item: int) -> None:
    """Insert into the ``size`` events, the earliest first."""
    node = size
    while node > 0:
        parent = (node - 1) >> 1
        if times[parent] <= time:
            break
        times[node], items[node] = times[parent], items[parent]
        node = parent
    times[node], items[node] = time, item


@njit(cache=True)
def pop_event(times: Floats, items: Items, size: int) -> int:
    """Remove and return the first of ``size`` events."""
    first = items[0]
    size -= 1
    time, item = times[size], items[size]
    node = 0
    while 2 * node + 1 < size:
        child = 2 * node + 1
        if child + 1 < size and times[child + 1] < times[child]:
            child += 1
        if times[child] >= time:
            break
        times[node], items[node] = times[child], items[child]
        node = child
    times[node], items[node] = time, item
    return int(first)
