"""Which operators must share a device with a given one, or must not, for a makespan; on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.bounds.makespan.arrays import DEVICE, NOTHING, Arcs, Clusters, PassArrays
from solvers.bounds.makespan.one_machine_kernel import preemptive_span
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit

FREE, WITH, WITHOUT = 0, 1, 2
"""What is known of a cluster: nothing; that it is on the anchor's device; that it is not. Arrays whose last index
is `where` have 0 for the first and 1 for the second, so ``known[c] == WITH + where`` says that c is there, and
``WITHOUT - where`` that it is on the other side."""
IMPOSSIBLE, SAME, CHANGED = -1, 0, 1
"""What a step concluded: that no plan is so short; nothing; something about a cluster."""


class Paths(NamedTuple):
    """Bounds for each side an operator, or a cluster, may be on: with the anchor (0) and without it (1)."""

    head: Floats  # [operators, 2], s, the earliest start
    tail: Floats  # [operators, 2], s, after its end; as the reversed pass numbers operators
    longest: Floats  # [clusters, 2], s, the longest path through an operator of a cluster


class Windows(NamedTuple):
    """When the operators of a cluster can run, on each side."""

    load: Floats  # [clusters], s
    earliest: Floats  # [clusters, 2], s, before the first
    latest: Floats  # [clusters, 2], s, after the last, at least


@njit(cache=True)
def _two_paths(
    seconds: Floats, clusters: Clusters, arcs: Arcs, known: Ints, base: Floats, others: int, head: Floats
) -> None:
    """Longest paths to every operator, itself excluded, on each side; inf where ``known`` excludes that.

    base: [operators], s, bounds that hold in either case. head: [operators, 2], set.
    """
    of, copyable, separate, _ = clusters
    in_start, in_from, in_delay, _, _, _ = arcs
    for x in range(len(seconds)):
        cluster = of[x]
        for where in range(2):
            if known[cluster] == WITHOUT - where:
                head[x, where] = np.inf
                continue
            start = base[x]
            for k in range(in_start[x], in_start[x + 1]):
                u = in_from[k]
                other = of[u]
                if other == cluster and not copyable[cluster]:
                    start = max(start, head[u, where] + seconds[u])
                    continue
                wait = in_delay[k]
                same = head[u, where] + seconds[u]
                if separate[other, cluster]:  # with several other devices, both may be without the anchor
                    same = same + wait if where == 1 and others > 1 else np.inf
                start = max(start, min(same, head[u, 1 - where] + seconds[u] + wait))
            head[x, where] = start


@njit(cache=True)
def around(
    limit: float,
    anchor: int,
    arrays: PassArrays,
    clusters: Clusters,
    cap: float,
    others: int,
    base: tuple[Floats, Floats],
    known: Ints,
    paths: Paths,
) -> int:
    """Find out what must be with the cluster ``anchor`` if the makespan is at most ``limit`` seconds.

    cap: bytes, the largest of any device. others: how many devices there are beside the anchor's. base: heads,
    and tails as the reversed pass numbers operators, that hold on either side, [operators]. known: [clusters],
    raised in place. paths: set. Returns the rounds it took, as a negative number if no plan is that short.

    A cluster is not with the anchor if a path through one of its operators would be too long, if the anchor's
    device would not hold it, or if the device would not have the time; and the reverse. What must be
    with the anchor shares a machine (`preemptive_span`); with one other device, so does all else.
    """
    count, names = len(arrays.seconds), len(clusters.copyable)
    load = np.zeros(names)
    for x in range(count):
        load[clusters.of[x]] += arrays.seconds[x]
    windows = Windows(load, np.empty((names, 2)), np.empty((names, 2)))
    known[anchor] = WITH
    for c in range(names):
        if clusters.separate[anchor, c]:
            if known[c] == WITH:
                return -1
            known[c] = WITHOUT
    reversed_s = arrays.seconds[::-1].copy()
    reversed_clusters = Clusters(clusters.of[::-1].copy(), clusters.copyable, clusters.separate, clusters.held)
    rounds = 0
    while True:
        rounds += 1
        _two_paths(arrays.seconds, clusters, arrays.forth, known, base[0], others, paths.head)
        _two_paths(reversed_s, reversed_clusters, arrays.back, known, base[1], others, paths.tail)
        _measure(arrays.seconds, clusters, paths, windows)
        concluded = _by_paths(limit, clusters, known, paths.longest)
        if concluded == SAME:
            concluded = _by_machines(limit, arrays.seconds, clusters, cap, others, known, paths, windows)
        if concluded == IMPOSSIBLE:
            return -rounds
        if concluded == CHANGED:
            continue
        if not _channels_have_time(limit, arrays, clusters.of, known, paths):
            return -rounds
        return rounds if _devices_have_time(limit, others, clusters, known, windows) else -rounds


@njit(cache=True)
def _measure(seconds: Floats, clusters: Clusters, paths: Paths, windows: Windows) -> None:
    """Longest paths and windows of all clusters from the paths to and from their operators."""
    count = len(seconds)
    paths.longest[:] = 0.0
    windows.earliest[:], windows.latest[:] = np.inf, np.inf
    for x in range(count):
        c = clusters.of[x]
        for where in range(2):
            head, tail = paths.head[x, where], paths.tail[count - 1 - x, where]
            paths.longest[c, where] = max(paths.longest[c, where], head + seconds[x] + tail)
            windows.earliest[c, where] = min(windows.earliest[c, where], head)
            windows.latest[c, where] = min(windows.latest[c, where], tail)


@njit(cache=True)
def _by_paths(limit: float, clusters: Clusters, known: Ints, longest: Floats) -> int:
    """Put every cluster on the only side where no path through it is too long."""
    concluded = SAME
    for c in range(len(known)):
        if clusters.copyable[c]:  # its operators may be on both sides
            if min(longest[c, 0], longest[c, 1]) > limit:
                return IMPOSSIBLE
        elif known[c] != FREE:
            if longest[c, known[c] - WITH] > limit:
                return IMPOSSIBLE
        elif longest[c, 0] > limit and longest[c, 1] > limit:
            return IMPOSSIBLE
        elif longest[c, 0] > limit:
            known[c] = WITHOUT
            concluded = CHANGED
        elif longest[c, 1] > limit:
            known[c] = WITH
            concluded = CHANGED
    return concluded


@njit(cache=True)
def _by_machines(
    limit: float,
    seconds: Floats,
    clusters: Clusters,
    cap: float,
    others: int,
    known: Ints,
    paths: Paths,
    windows: Windows,
) -> int:
    """Refute by the time and the bytes of the anchor's device, and of the other one where there is but one; send
    away what would not fit there."""
    count = len(seconds)
    jobs = np.empty(count, np.int64)
    concluded = SAME
    for where in range(2 if others == 1 else 1):  # several other devices are no one machine
        size = 0
        for x in range(count):
            if known[clusters.of[x]] == WITH + where:
                jobs[size] = x
                size += 1
        least_head, least_tail, taken, nbytes = np.inf, np.inf, 0.0, 0.0
        for c in range(len(known)):
            if known[c] == WITH + where and not clusters.copyable[c]:
                least_head = min(least_head, windows.earliest[c, where])
                least_tail = min(least_tail, windows.latest[c, where])
                taken += windows.load[c]
                nbytes += clusters.held[c]
        if nbytes > cap:
            return IMPOSSIBLE
        if size > 0:
            tails = paths.tail[::-1, where].copy()
            if preemptive_span(jobs, size, paths.head[:, where].copy(), seconds, tails) > limit:
                return IMPOSSIBLE
        for c in range(len(known)):
            if known[c] != FREE or clusters.copyable[c]:
                continue
            first, last = min(least_head, windows.earliest[c, where]), min(least_tail, windows.latest[c, where])
            if first + taken + windows.load[c] + last > limit or nbytes + clusters.held[c] > cap:
                known[c] = WITHOUT - where
                concluded = CHANGED
    return concluded


@njit(cache=True)
def _channels_have_time(limit: float, arrays: PassArrays, cluster: Ints, known: Ints, paths: Paths) -> bool:
    """Whether what carries messages from the anchor's device and to it can carry those that must cross.

    A message crosses at least once for producers on the one side and readers on the other; it starts after
    these producers, and something follows it: all of them where they share a device, else one at least.
    """
    channels, seconds = arrays.channels, arrays.seconds
    if channels.leaving == NOTHING:
        return True
    count, messages = len(seconds), len(channels.seconds)
    compute = channels.leaving == DEVICE
    size = 2 * messages + (count if compute else 0)
    ready, takes, after = np.empty(size), np.empty(size), np.empty(size)
    carrier = np.empty(size, np.int64)
    jobs = 0
    for m in range(messages):
        for where in range(2):  # of the producers
            ends, follows = -1.0, -1.0
            for k in range(channels.producer_start[m], channels.producer_start[m + 1]):
                x = channels.producer[k]
                if known[cluster[x]] == WITH + where:
                    ends = max(ends, paths.head[x, where] + seconds[x])
            if ends < 0.0:
                continue
            for k in range(channels.reader_start[m], channels.reader_start[m + 1]):
                x = channels.reader[k]
                if known[cluster[x]] == WITHOUT - where:
                    follows = max(follows, seconds[x] + paths.tail[count - 1 - x, 1 - where])
            if follows < 0.0:
                continue
            ready[jobs], takes[jobs], after[jobs] = ends, channels.seconds[m], follows
            carrier[jobs] = channels.leaving if where == 0 else channels.reaching
            jobs += 1
    if jobs == 0:
        return True
    if compute:
        for x in range(count):
            if known[cluster[x]] == WITH:
                ready[jobs], takes[jobs], after[jobs] = paths.head[x, 0], seconds[x], paths.tail[count - 1 - x, 0]
                carrier[jobs] = DEVICE
                jobs += 1
    for each in (0, 1, DEVICE):
        carried = np.flatnonzero(carrier[:jobs] == each)
        if len(carried) > 0 and preemptive_span(carried, len(carried), ready, takes, after) > limit:
            return False
    return True


@njit(cache=True)
def _devices_have_time(limit: float, others: int, clusters: Clusters, known: Ints, windows: Windows) -> bool:
    """Whether the anchor's device and the others together have the time for all, from when each can start at
    the earliest until it must end."""
    work = 0.0
    start, end = np.array([np.inf, np.inf]), np.array([np.inf, np.inf])
    for c in range(len(known)):
        work += windows.load[c]
        for where in range(2):
            if clusters.copyable[c] or known[c] != WITHOUT - where:
                start[where] = min(start[where], windows.earliest[c, where])
                end[where] = min(end[where], windows.latest[c, where])
    room = 0.0
    for where in range(2):
        devices = 1 if where == 0 else others
        if start[where] < np.inf:
            room += devices * max(0.0, limit - start[where] - end[where])
    return work <= room
