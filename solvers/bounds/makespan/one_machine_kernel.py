"""Jobs with heads and tails on one machine, or shared by several, on plain arrays."""

from __future__ import annotations

import numpy as np

from solvers.bounds.makespan.arrays import Clusters
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.heap_kernel import pop_event, push_event
from solvers.kernels.lazy import njit
from solvers.kernels.plain import ZERO


@njit(cache=True)
def preemptive_span(jobs: Ints, count: int, head: Floats, seconds: Floats, tail: Floats) -> float:
    """The least max of end + tail of ``jobs[:count]`` on one machine that may interrupt them.

    Jackson's preemptive schedule: of the jobs that are there, always the one with the longest tail. No
    schedule without interruptions is shorter (Carlier, EJOR 1982, section 2).
    """
    by_head = jobs[:count][np.argsort(head[jobs[:count]], kind="mergesort")]
    left, later = np.empty(count, np.float64), np.empty(count, np.float64)  # tails, negated
    heap = np.empty(count, np.int64)  # positions in by_head, the longest tail first
    for i in range(count):
        left[i] = seconds[by_head[i]]
    size, nxt = ZERO, 0
    now, span = 0.0, 0.0
    while nxt < count or size > 0:
        if size == 0:
            now = max(now, head[by_head[nxt]])
        while nxt < count and head[by_head[nxt]] <= now:
            push_event(later, heap, size, -tail[by_head[nxt]], nxt)
            size += 1
            nxt += 1
        job = heap[0]
        ends = now + left[job]
        if nxt < count and head[by_head[nxt]] < ends:
            left[job] -= head[by_head[nxt]] - now
            now = head[by_head[nxt]]
            continue
        now = ends
        span = max(span, now + tail[by_head[job]])
        pop_event(later, heap, size)
        size -= 1
    return span


@njit(cache=True)
def longest_span(clusters: Clusters, head: Floats, seconds: Floats, tail: Floats) -> float:
    """The longest `preemptive_span` of any cluster whose operators share a device."""
    cluster = clusters.of
    count = len(cluster)
    by_cluster = np.argsort(cluster.astype(np.float64), kind="mergesort")  # as below: one sort to compile
    span = 0.0
    first = 0
    while first < count:
        end = first
        own = cluster[by_cluster[first]]
        while end < count and cluster[by_cluster[end]] == own:
            end += 1
        if end > first + 1 and not clusters.copyable[own]:
            span = max(span, preemptive_span(by_cluster[first:end], end - first, head, seconds, tail))
        first = end
    return span


@njit(cache=True)
def shared_span(head: Floats, share: Floats, tail: Floats, rows: int) -> float:
    """max over thresholds a, b of a + (sum of ``share`` where head >= a and tail >= b) + b.

    At most ``rows`` values of a are tried, evenly spread over the sorted heads.
    """
    count = len(head)
    by_head = np.argsort(head, kind="mergesort")
    by_tail = np.argsort(-tail, kind="mergesort")
    best = 0.0
    step = max(1, count // rows)
    for place in range(0, count, step):
        a = head[by_head[place]]
        taken = 0.0
        for i in by_tail:
            if head[i] >= a and share[i] > 0.0:
                taken += share[i]
                best = max(best, a + taken + tail[i])
    return best
