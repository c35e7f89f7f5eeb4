"""Earliest starts of operators where readers on another device wait for a transfer, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.bounds.makespan.arrays import Arcs, Clusters, Flags
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit


class LookBack(NamedTuple):
    """What is known of the operators before one target v, while v is looked at."""

    near: Floats  # [operators], s from an operator's end until v starts if it is on v's device; inf if it cannot be
    far: Floats  # [operators], s if it is not; inf if it must be on v's device
    reached: Flags  # [operators], 1 where v waits for the operator
    if_near: Floats  # [clusters], s, the earliest start of v if the cluster is on v's device; -inf: not met
    if_far: Floats  # [clusters], s, the earliest start of v if it is not
    met: Ints  # [clusters], those met, in the order in which they were
    by_head: Ints  # [operators], the operators before v by earliest start
    jobs: Ints  # [operators], room for those that run before v on its device


@njit(cache=True)
def delayed_heads(seconds: Floats, clusters: Clusters, arcs: Arcs, one_by_one: bool, window: int, head: Floats) -> int:
    """Raise ``head`` [operators] to lower bounds on the start of every operator, in place; arcs visited.

    For an operator v, every earlier operator u is on v's device or not. From its end until v starts there
    are at least near[u] seconds in the one case and far[u] in the other: for each reader y of u on a path
    to v, the lesser of what follows if y is with v and if it is not. So if v starts at t, all clusters with
    some head[u] + seconds[u] + far[u] > t are on v's device, where they run one after the other before v;
    the earliest t for which these have the time is a bound (the argument of Papadimitriou and Yannakakis,
    SIAM J. Comput. 1990, section 3, with delays that differ and operators that are not copied).

    seconds: [operators], s. one_by_one: whether every device runs one operator at a time. window: how many
    operators before v are looked at.
    """
    count, names = len(seconds), len(clusters.copyable)
    back = LookBack(
        np.zeros(count), np.zeros(count), np.zeros(count, np.uint8), np.full(names, -np.inf),
        np.full(names, -np.inf), np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64),
    )  # fmt: skip
    visited = 0
    for v in range(count):
        own = clusters.of[v]
        start = head[v]
        for k in range(arcs.in_start[v], arcs.in_start[v + 1]):
            u = arcs.in_from[k]
            wait = arcs.in_delay[k] if clusters.separate[clusters.of[u], own] else 0.0
            start = max(start, head[u] + seconds[u] + wait)
        visited += arcs.in_start[v + 1] - arcs.in_start[v]
        if arcs.in_start[v + 1] > arcs.in_start[v] and not clusters.copyable[own]:
            lowest = max(0, v - window)
            start, met, more = _look_back(v, lowest, start, seconds, clusters, arcs, head, back)
            visited += more
            for i in range(met):  # a cluster is on v's device or not
                start = max(start, min(back.if_near[back.met[i]], back.if_far[back.met[i]]))
            if one_by_one and met > 0:
                start = _with_time_for_all(start, v, met, seconds, clusters, head, back)
            for i in range(met):
                back.if_near[back.met[i]] = -np.inf
                back.if_far[back.met[i]] = -np.inf
            back.reached[lowest : v + 1] = 0
        head[v] = start
        place = v
        while place > 0 and head[back.by_head[place - 1]] > start:
            back.by_head[place] = back.by_head[place - 1]
            place -= 1
        back.by_head[place] = v
    return visited


@njit(cache=True)
def _look_back(
    v: int,
    lowest: int,
    start: float,
    seconds: Floats,
    clusters: Clusters,
    arcs: Arcs,
    head: Floats,
    back: LookBack,
) -> tuple[float, int, int]:
    """Fill ``back`` for v and the operators from ``lowest`` on; (v's start, raised, clusters met, arcs visited)."""
    of, copyable, separate, _ = clusters
    _, _, _, out_start, out_to, out_delay = arcs
    near, far, reached, if_near, if_far, met_here, _, _ = back
    own = of[v]
    met, visited = 0, 0
    reached[v] = 1
    near[v], far[v] = 0.0, np.inf
    for u in range(v - 1, lowest - 1, -1):
        reaches_v = False
        here, there = 0.0, 0.0  # from u's end until v starts, if u is on v's device and if not
        cluster = of[u]
        for k in range(out_start[u], out_start[u + 1]):
            y = out_to[k]
            if y > v or not reached[y]:
                continue
            reaches_v = True
            visited += 1
            wait = out_delay[k]
            other = of[y]
            after = seconds[y] if y != v else 0.0
            with_v = after + near[y] if other == own or not separate[other, own] else np.inf
            without_v = after + far[y] if other != own else np.inf
            if cluster == other and not copyable[cluster]:  # y is where u is
                here = max(here, with_v)
                there = max(there, without_v)
                continue
            # Neither with v: y and u may still share a device unless their clusters never do.
            between = wait if separate[cluster, other] else 0.0
            here = max(here, min(with_v, without_v + wait))
            there = max(there, min(with_v + wait, without_v + between))
        if not reaches_v:
            continue
        reached[u] = 1
        if cluster == own:
            there = np.inf
        elif separate[cluster, own]:
            here = np.inf
        near[u], far[u] = here, there
        ends = head[u] + seconds[u]
        if copyable[cluster]:  # each operator for itself
            start = max(start, ends + min(here, there))
            continue
        if if_near[cluster] == -np.inf and if_far[cluster] == -np.inf:
            met_here[met] = cluster
            met += 1
        if_near[cluster] = max(if_near[cluster], ends + here)
        if_far[cluster] = max(if_far[cluster], ends + there)
    return start, met, visited


@njit(cache=True)
def _busy(t: float, jobs: Ints, head: Floats, seconds: Floats, of: Ints, near: Floats, if_far: Floats) -> float:
    """When the target can start if all clusters that cannot be elsewhere for a start at ``t`` run before it."""
    taken, least, span = 0.0, np.inf, 0.0
    for u in jobs:
        if if_far[of[u]] > t:
            taken += seconds[u]
            least = min(least, near[u])
            if least < np.inf:
                span = max(span, head[u] + taken + least)
    return span


@njit(cache=True)
def _with_time_for_all(
    start: float, v: int, met: int, seconds: Floats, clusters: Clusters, head: Floats, back: LookBack
) -> float:
    """The earliest t >= start for which the clusters that must be with v have the time before t."""
    count = 0
    for place in range(v - 1, -1, -1):
        u = back.by_head[place]
        cluster = clusters.of[u]
        if back.reached[u] and not clusters.copyable[cluster] and back.if_far[cluster] > start:
            back.jobs[count] = u
            count += 1
    jobs = back.jobs[:count]  # the latest head first
    span = _busy(start, jobs, head, seconds, clusters.of, back.near, back.if_far)
    if span <= start:
        return start
    limits = np.empty(met)
    count = 0
    for cluster in back.met[:met]:
        if start < back.if_far[cluster] < np.inf:
            limits[count] = back.if_far[cluster]
            count += 1
    limits = np.sort(limits[:count])
    # The clusters that must be with v change only at these limits; below the first that leaves time
    # enough, the set is that of the limit before.
    low, high = -1, count  # limits[low] leaves too little time (-1: start), limits[high] enough
    while high - low > 1:
        middle = (low + high) // 2
        if _busy(limits[middle], jobs, head, seconds, clusters.of, back.near, back.if_far) <= limits[middle]:
            high = middle
        else:
            low = middle
    span = _busy(start if low < 0 else limits[low], jobs, head, seconds, clusters.of, back.near, back.if_far)
    return span if high == count else min(span, limits[high])
