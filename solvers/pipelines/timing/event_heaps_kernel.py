"""Binary heaps of event simulations, on plain arrays."""

from __future__ import annotations

from numba import njit

from solvers.kernels.arrays import Floats
from solvers.pipelines.timing.transfers_kernel import Shorts


@njit(cache=True)
def push_event(when: Floats, what: Shorts, size: int, time: float, resource: int) -> None:
    """Insert (time, resource) into the heap of ``size`` events, the earliest first."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if when[parent] <= time:
            break
        when[child], what[child] = when[parent], what[parent]
        child = parent
    when[child], what[child] = time, resource


@njit(cache=True)
def pop_event(when: Floats, what: Shorts, size: int) -> None:
    """Remove the first of ``size`` events."""
    size -= 1
    time, resource = when[size], what[size]
    node = 0
    while 2 * node + 1 < size:
        child = 2 * node + 1
        if child + 1 < size and when[child + 1] < when[child]:
            child += 1
        if when[child] >= time:
            break
        when[node], what[node] = when[child], what[child]
        node = child
    when[node], what[node] = time, resource


@njit(cache=True)
def push_ready(heap: Shorts, base: int, size: int, item: int, turn: Shorts) -> None:
    """Insert into heap[base : base + size], ordered by (turn, item)."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        other = heap[base + parent]
        if turn[other] < turn[item] or (turn[other] == turn[item] and other < item):
            break
        heap[base + child] = other
        child = parent
    heap[base + child] = item


@njit(cache=True)
def pop_ready(heap: Shorts, base: int, size: int, turn: Shorts) -> int:
    """Remove and return the first of heap[base : base + size]."""
    top = heap[base]
    size -= 1
    item = heap[base + size]
    node = 0
    while 2 * node + 1 < size:
        child = 2 * node + 1
        other = heap[base + child]
        if child + 1 < size:
            beside = heap[base + child + 1]
            if turn[beside] < turn[other] or (turn[beside] == turn[other] and beside < other):
                child += 1
                other = beside
        if turn[item] < turn[other] or (turn[item] == turn[other] and item < other):
            break
        heap[base + node] = other
        node = child
    heap[base + node] = item
    return int(top)
