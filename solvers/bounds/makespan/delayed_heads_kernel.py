"""Earliest starts of operators where readers on another device wait for a transfer, on plain arrays."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.kernels.arrays import Floats, Ints

Flags = NDArray[np.uint8]


@njit(cache=True)
def delayed_heads(
    seconds: Floats,
    cluster: Ints,
    loose: Flags,
    apart: Flags,
    in_start: Ints,
    in_from: Ints,
    in_delay: Floats,
    out_start: Ints,
    out_to: Ints,
    out_delay: Floats,
    one_by_one: bool,
    window: int,
    head: Floats,
) -> int:
    """Raise ``head`` [operators] to lower bounds on the start of every operator, in place; arcs visited.

    Operators are numbered topologically; arcs are given by target (in) and by source (out), with the
    seconds that the target waits when the two are on different devices. Operators of one cluster share a
    device, those of clusters that are apart do not; those of loose clusters may be on several.

    For an operator v, every earlier operator u is on v's device or not. From its end until v starts there
    are at least near[u] seconds in the one case and far[u] in the other: for each reader y of u on a way
    to v, the lesser of what follows if y is with v and if it is not. So if v starts at t, all clusters with
    some head[u] + seconds[u] + far[u] > t are on v's device, where they run one after the other before v;
    the earliest t for which these have the time is a bound (the argument of Papadimitriou and Yannakakis,
    SIAM J. Comput. 1990, section 3, with delays that differ and operators that are not copied).
    Only the last ``window`` operators before v are looked at.
    """
    count = len(seconds)
    clusters = len(loose)
    near, far = np.zeros(count), np.zeros(count)
    reached = np.zeros(count, np.uint8)
    if_near, if_far = np.full(clusters, -np.inf), np.full(clusters, -np.inf)
    touched = np.empty(count, np.int64)
    by_head, jobs = np.empty(count, np.int64), np.empty(count, np.int64)
    visited = 0
    for v in range(count):
        own = cluster[v]
        start = head[v]
        pays = False
        for k in range(in_start[v], in_start[v + 1]):
            u = in_from[k]
            wait = in_delay[k] if apart[cluster[u], own] else 0.0
            start = max(start, head[u] + seconds[u] + wait)
        visited += in_start[v + 1] - in_start[v]
        pays = in_start[v + 1] > in_start[v] and not loose[own]
        if pays:
            lowest = max(0, v - window)
            met = 0
            reached[v] = 1
            near[v] = 0.0
            far[v] = np.inf
            for u in range(v - 1, lowest - 1, -1):
                found = False
                here, there = 0.0, 0.0
                mine = cluster[u]
                for k in range(out_start[u], out_start[u + 1]):
                    y = out_to[k]
                    if y > v or not reached[y]:
                        continue
                    found = True
                    visited += 1
                    wait = out_delay[k]
                    other = cluster[y]
                    after = seconds[y] if y != v else 0.0
                    with_v = other == own or not apart[other, own]
                    without_v = other != own
                    if mine == other and not loose[mine]:  # y is where u is
                        here = max(here, after + near[y] if with_v else np.inf)
                        there = max(there, after + far[y] if without_v else np.inf)
                        continue
                    between = wait if apart[mine, other] else 0.0
                    a = after + near[y] if with_v else np.inf
                    b = after + far[y] if without_v else np.inf
                    here = max(here, min(a, b + wait))
                    there = max(there, min(a + wait, b + between))
                if not found:
                    continue
                reached[u] = 1
                if mine == own:
                    there = np.inf
                elif apart[mine, own]:
                    here = np.inf
                near[u], far[u] = here, there
                if loose[mine]:
                    start = max(start, head[u] + seconds[u] + min(here, there))
                    continue
                if if_near[mine] == -np.inf and if_far[mine] == -np.inf:
                    touched[met] = mine
                    met += 1
                ends = head[u] + seconds[u]
                if_near[mine] = max(if_near[mine], ends + here)
                if_far[mine] = max(if_far[mine], ends + there)
            for i in range(met):
                start = max(start, min(if_near[touched[i]], if_far[touched[i]]))
            if one_by_one and met > 0:
                start = _with_time_for_all(
                    start,
                    v,
                    head,
                    seconds,
                    cluster,
                    loose,
                    reached,
                    near,
                    if_far,
                    touched[:met],
                    by_head,
                    jobs,
                )
            for i in range(met):
                if_near[touched[i]] = -np.inf
                if_far[touched[i]] = -np.inf
            reached[lowest : v + 1] = 0
        head[v] = start
        place = v
        while place > 0 and head[by_head[place - 1]] > start:
            by_head[place] = by_head[place - 1]
            place -= 1
        by_head[place] = v
    return visited


@njit(cache=True)
def _busy(
    t: float, jobs: Ints, head: Floats, seconds: Floats, cluster: Ints, near: Floats, if_far: Floats
) -> float:  # fmt: skip
    """When the target can start if all clusters that cannot be elsewhere for a start at ``t`` run before it."""
    taken, least, span = 0.0, np.inf, 0.0
    for u in jobs:
        if if_far[cluster[u]] > t:
            taken += seconds[u]
            least = min(least, near[u])
            if least < np.inf:
                span = max(span, head[u] + taken + least)
    return span


@njit(cache=True)
def _with_time_for_all(
    start: float, v: int, head: Floats, seconds: Floats, cluster: Ints, loose: Flags, reached: Flags, near: Floats,
    if_far: Floats, touched: Ints, by_head: Ints, jobs: Ints,
) -> float:  # fmt: skip
    """The earliest t >= start for which the clusters that must be with v have the time before t."""
    count = 0
    for place in range(v - 1, -1, -1):
        u = by_head[place]
        if reached[u] and not loose[cluster[u]] and if_far[cluster[u]] > start:
            jobs[count] = u
            count += 1
    jobs = jobs[:count]
    span = _busy(start, jobs, head, seconds, cluster, near, if_far)
    if span <= start:
        return start
    limits = np.empty(len(touched))
    count = 0
    for c in touched:
        if start < if_far[c] < np.inf:
            limits[count] = if_far[c]
            count += 1
    limits = np.sort(limits[:count])
    # The clusters that must be with v change only at these limits; below the first that leaves time
    # enough, the set is that of the limit before.
    low, high = -1, count  # limits[low] leaves too little time (-1: start), limits[high] enough
    while high - low > 1:
        middle = (low + high) // 2
        if _busy(limits[middle], jobs, head, seconds, cluster, near, if_far) <= limits[middle]:
            high = middle
        else:
            low = middle
    span = _busy(start if low < 0 else limits[low], jobs, head, seconds, cluster, near, if_far)
    return span if high == count else min(span, limits[high])
