"""The orders of the stages of a draft, on plain arrays: textbook patterns, and whatever is ready first."""

from __future__ import annotations

import numpy as np
from numba import njit

from solvers.kernels.pipeline_stages import KINDS, B, Bools, F, Floats, Ints, U, topological


@njit(cache=True)
def alternating(
    stage: int, forward: bool, backward: bool, count: int, keeps: int, block: int, unit: Ints, micro: Ints
) -> int:
    """Write the order of one stage, see `solvers.patterns.alternate`, to unit and micro; return its length."""
    n = 0
    if not (forward and backward):
        for j in range(count):
            if forward or backward:
                unit[n], micro[n] = KINDS * stage + (F if forward else B), j
                n += 1
        return n
    for j in range(min(keeps, count)):
        unit[n], micro[n] = KINDS * stage + F, j
        n += 1
    for j in range(0, count, block):
        for i in range(j, min(j + block, count)):
            unit[n], micro[n] = KINDS * stage + B, i
            n += 1
        for i in range(keeps + j, min(keeps + j + block, count)):
            unit[n], micro[n] = KINDS * stage + F, i
            n += 1
    return n


@njit(cache=True)
def _sooner(a: int, b: int, start: Floats, second: Ints, sample: Ints, tie: Ints) -> bool:
    if start[a] != start[b]:
        return bool(start[a] < start[b])
    if second[a] != second[b]:
        return bool(second[a] < second[b])
    if sample[a] != sample[b]:
        return bool(sample[a] < sample[b])
    return bool(tie[a] < tie[b])


@njit(cache=True)
def _push(heap: Ints, size: int, item: int, start: Floats, second: Ints, sample: Ints, tie: Ints) -> None:
    child = size
    heap[child] = item
    while child > 0:
        parent = (child - 1) >> 1
        if not _sooner(heap[child], heap[parent], start, second, sample, tie):
            break
        heap[child], heap[parent] = heap[parent], heap[child]
        child = parent


@njit(cache=True)
def _pop(heap: Ints, size: int, start: Floats, second: Ints, sample: Ints, tie: Ints) -> int:
    top = heap[0]
    size -= 1
    heap[0] = heap[size]
    node = 0
    while 2 * node + 1 < size:
        child = 2 * node + 1
        if child + 1 < size and _sooner(heap[child + 1], heap[child], start, second, sample, tie):
            child += 1
        if not _sooner(heap[child], heap[node], start, second, sample, tie):
            break
        heap[child], heap[node] = heap[node], heap[child]
        node = child
    return int(top)


@njit(cache=True)
def eager(
    exists: Bools,
    seconds: Floats,
    waits: Bools,
    counts: Ints,
    size: Ints,
    keeps: Ints,
    group: Ints,
    forward_first: bool,
    order_start: Ints,
    unit: Ints,
    micro: Ints,
) -> bool:
    """Write the orders of `solvers.eager_order.eager_order` to unit and micro, from order_start[g] on for the
    devices g; False if the stages wait for each other.

    exists, seconds: of every unit. waits: see `pipeline_stages.waits_of`. counts, size, keeps, group: micro-batches,
    samples of one, how many are kept in flight, and devices, of every stage.
    """
    stages = len(counts)
    actions = 2 * stages  # 2 * stage + (0 forward, 1 backward)
    has = np.zeros(actions, np.bool_)
    duration = np.zeros(actions)
    longest = 1
    left = 0
    for s in range(stages):
        longest = max(longest, counts[s])
        for k in range(2):
            has[2 * s + k] = exists[KINDS * s + k]
            duration[2 * s + k] = seconds[KINDS * s + k]
            if has[2 * s + k]:
                left += counts[s]
    read_start = np.zeros(actions + 1, np.int64)
    reads = np.zeros(actions * actions, np.int64)
    reader_start = np.zeros(actions + 1, np.int64)
    readers = np.zeros(actions * actions + actions, np.int64)
    n = 0
    for a in range(actions):
        if has[a]:
            for b in range(actions):
                if has[b] and waits[b % 2, a % 2, b // 2, a // 2]:
                    reads[n] = b
                    n += 1
            if a % 2 == 1 and has[a - 1]:
                reads[n] = a - 1
                n += 1
        read_start[a + 1] = n
    n = 0
    for b in range(actions):
        for a in range(actions):
            if has[a] and has[b] and (a // 2 == b // 2 or waits[b % 2, a % 2, b // 2, a // 2]):
                readers[n] = a
                n += 1
        reader_start[b + 1] = n
    ended = np.zeros((actions, longest))
    following = np.zeros(actions, np.int64)
    free = np.zeros(len(order_start))
    at = order_start.copy()
    start, ready = np.zeros(actions), np.zeros(actions)
    second, sample, tie = np.zeros(actions, np.int64), np.zeros(actions, np.int64), np.zeros(actions, np.int64)
    for a in range(actions):
        second[a] = (a % 2 == 0) != forward_first
        tie[a] = -(a // 2) if a % 2 == 0 else a // 2
    queued = np.zeros(actions, np.bool_)
    heap = np.zeros(actions, np.int64)
    heaped = 0
    todo = np.arange(actions)
    doing = actions
    while True:
        for r in range(doing):
            a = todo[r]
            s, j = a // 2, following[a]
            if not has[a] or queued[a] or j == counts[s]:
                continue
            if a % 2 == 0 and has[a + 1] and j - following[a + 1] >= keeps[s]:
                continue
            when = 0.0
            known = True
            for e in range(read_start[a], read_start[a + 1]):
                b = reads[e]
                last = j
                if counts[b // 2] != counts[s]:
                    last = -(-(j + 1) * counts[b // 2] // counts[s]) - 1
                if following[b] <= last:
                    known = False
                    break
                when = max(when, ended[b, last])
            if known:
                queued[a] = True
                ready[a] = when
                start[a] = max(when, free[group[s]])
                sample[a] = j * size[s]
                _push(heap, heaped, a, start, second, sample, tie)
                heaped += 1
        if left == 0:
            return True
        if heaped == 0:
            return False
        a = _pop(heap, heaped, start, second, sample, tie)
        heaped -= 1
        s = a // 2
        g = group[s]
        doing = 0
        if free[g] > start[a]:
            start[a] = max(ready[a], free[g])
            _push(heap, heaped, a, start, second, sample, tie)
            heaped += 1
            continue
        end = start[a] + duration[a]
        ended[a, following[a]] = end
        free[g] = end
        unit[at[g]], micro[at[g]] = KINDS * s + a % 2, following[a]
        at[g] += 1
        following[a] += 1
        left -= 1
        queued[a] = False
        doing = reader_start[a + 1] - reader_start[a]
        todo[:doing] = readers[reader_start[a] : reader_start[a + 1]]


@njit(cache=True)
def orders_of(
    exists: Bools,
    seconds: Floats,
    waits: Bools,
    counts: Ints,
    size: Ints,
    keeps: Ints,
    block: Ints,
    group: Ints,
    groups: int,
    forward_first: bool,
) -> tuple[bool, Ints, Ints, Ints]:
    """(whether there is one, order_start, unit, micro): the order of devices g is order_start[g]:order_start[g + 1].

    As `solvers.orders.pipeline_order`: patterns if all stages have devices of their own, else whatever is ready
    first; updates at the end. Arguments as of `eager`; block: the k of kFkB of every stage.
    """
    stages = len(counts)
    order_start = np.zeros(groups + 1, np.int64)
    own = np.zeros(groups, np.int64)
    for s in range(stages):
        own[group[s]] += 1
        for kind in range(KINDS):
            if exists[KINDS * s + kind]:
                order_start[group[s] + 1] += 1 if kind == U else counts[s]
    for g in range(groups):
        order_start[g + 1] += order_start[g]
    unit, micro = np.zeros(order_start[groups], np.int64), np.zeros(order_start[groups], np.int64)
    if np.max(own) <= 1:
        for s in range(stages):
            low, high = order_start[group[s]], order_start[group[s] + 1]
            forward, backward = exists[KINDS * s + F], exists[KINDS * s + B]
            alternating(s, forward, backward, counts[s], keeps[s], block[s], unit[low:high], micro[low:high])
    elif not eager(exists, seconds, waits, counts, size, keeps, group, forward_first, order_start, unit, micro):
        return False, order_start, unit, micro
    updates = topological(waits[2, 2])
    if len(updates) < stages:
        return False, order_start, unit, micro
    at = order_start[1:].copy()
    for rank in range(stages - 1, -1, -1):
        s = updates[rank]
        if exists[KINDS * s + U]:
            at[group[s]] -= 1
            unit[at[group[s]]], micro[at[group[s]]] = KINDS * s + U, 0
    return True, order_start, unit, micro
