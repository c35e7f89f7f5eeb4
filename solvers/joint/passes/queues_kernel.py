"""Who goes next in a simulation of one pass: tasks that wait for a resource, and those that run.

Heaps of its own: with those of `solvers.kernels.heap_kernel` a pass takes up to a quarter longer.
"""

from __future__ import annotations

from numba import njit

from solvers.kernels.arrays import Floats, Ints


@njit(cache=True)
def push(base: int, size: int, task: int, priority: Floats, code: Ints, keys: Floats, queued: Ints) -> None:
    """Put a task into the binary heap of ``size`` tasks that lies in ``keys`` and ``queued`` from ``base`` on."""
    key = priority[task]
    node = size
    while node > 0:
        parent = (node - 1) >> 1
        above = keys[base + parent]
        if key > above or (key == above and code[task] > code[queued[base + parent]]):
            break
        keys[base + node] = above
        queued[base + node] = queued[base + parent]
        node = parent
    keys[base + node] = key
    queued[base + node] = task


@njit(cache=True)
def pop(base: int, size: int, code: Ints, keys: Floats, queued: Ints) -> None:
    """Take the first task out of a heap of ``size`` tasks."""
    size -= 1
    key, task = keys[base + size], queued[base + size]
    node = 0
    while True:
        child = 2 * node + 1
        if child >= size:
            break
        below = keys[base + child]
        if child + 1 < size:
            other = keys[base + child + 1]
            if other < below or (other == below and code[queued[base + child + 1]] < code[queued[base + child]]):
                child += 1
                below = other
        if key < below or (key == below and code[task] < code[queued[base + child]]):
            break
        keys[base + node] = below
        queued[base + node] = queued[base + child]
        node = child
    keys[base + node] = key
    queued[base + node] = task


@njit(cache=True)
def push_event(events: Ints, size: int, task: int, end_s: Floats) -> None:
    child = size
    events[child] = task
    while child > 0:
        parent = (child - 1) >> 1
        if end_s[events[child]] < end_s[events[parent]]:
            events[child], events[parent] = events[parent], events[child]
            child = parent
        else:
            break


@njit(cache=True)
def pop_event(events: Ints, size: int, end_s: Floats) -> int:
    top = events[0]
    size -= 1
    events[0] = events[size]
    node = 0
    while True:
        child = 2 * node + 1
        if child >= size:
            break
        if child + 1 < size and end_s[events[child + 1]] < end_s[events[child]]:
            child += 1
        if end_s[events[child]] < end_s[events[node]]:
            events[child], events[node] = events[node], events[child]
            node = child
        else:
            break
    return int(top)
