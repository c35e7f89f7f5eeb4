"""Which operators must share a device with a given one, or must not, for a makespan; on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.bounds.makespan.one_machine_kernel import preemptive_span
from solvers.kernels.arrays import Floats, Ints

Flags = NDArray[np.uint8]


class Wires(NamedTuple):
    """Messages, and what carries those that leave the anchor's device or reach it.

    producer, reader: of every message, CSR; operators that may be copied are left out. seconds: the least that
    one transfer takes. leaving, reaching: 0 or 1, a wire or lane (the same one if they are equal); DEVICE, the
    anchor's device itself; or NOTHING where no single resource carries all of them.
    """

    producer_start: Ints
    producer: Ints
    reader_start: Ints
    reader: Ints
    seconds: Floats
    leaving: int
    reaching: int


DEVICE, NOTHING = 2, -1
FREE, WITH, WITHOUT = 0, 1, 2
"""What is known of a cluster: nothing; that it is on the anchor's device; that it is not."""


@njit(cache=True)
def two_ways(
    seconds: Floats,
    cluster: Ints,
    loose: Flags,
    apart: Flags,
    known: Ints,
    base: Floats,
    in_start: Ints,
    in_from: Ints,
    in_delay: Floats,
    others: int,
    head: Floats,
) -> None:
    """Longest ways to every operator, itself excluded, where it is with the anchor ([:, 0]) and where not
    ([:, 1]); inf where `known` excludes that.

    base: [operators], bounds that hold in either case. others: as in `around`.
    """
    for x in range(len(seconds)):
        mine = cluster[x]
        for where in range(2):
            if known[mine] == WITH + 1 - where:
                head[x, where] = np.inf
                continue
            start = base[x]
            for k in range(in_start[x], in_start[x + 1]):
                u = in_from[k]
                other = cluster[u]
                if other == mine and not loose[mine]:
                    start = max(start, head[u, where] + seconds[u])
                    continue
                wait = in_delay[k]
                same = head[u, where] + seconds[u]
                if apart[other, mine]:  # with several other devices, both may be without the anchor
                    same = same + wait if where == 1 and others > 1 else np.inf
                start = max(start, min(same, head[u, 1 - where] + seconds[u] + wait))
            head[x, where] = start


@njit(cache=True)
def around(
    limit: float,
    anchor: int,
    seconds: Floats,
    cluster: Ints,
    loose: Flags,
    apart: Flags,
    held: Floats,
    cap: float,
    others: int,
    in_start: Ints,
    in_from: Ints,
    in_delay: Floats,
    back_start: Ints,
    back_from: Ints,
    back_delay: Floats,
    wires: Wires,
    base_head: Floats,
    base_tail: Floats,
    known: Ints,
    head: Floats,
    tail: Floats,
    longest: Floats,
) -> int:
    """Find out what must be with the cluster ``anchor`` if the makespan is at most ``limit``.

    known: [clusters], raised in place. head, tail: [operators, 2], room for `two_ways`; longest: [clusters, 2],
    set to the longest way through an operator of each cluster if it is with the anchor and if not. back_*: arcs by
    target of the reversed pass; base_tail as it numbers operators. held: [clusters], bytes; cap: the largest of any
    device. others: how many devices there are beside the anchor's. Returns the rounds it took, as a negative
    number if no plan is that short.

    A cluster is not with the anchor if a way through one of its operators would be too long, if the anchor's
    device would not hold it, or if the device would not have the time; and the reverse. What must be
    with the anchor shares a machine (`preemptive_span`); with one other device, so does all else.
    """
    count, clusters = len(seconds), len(loose)
    jobs = np.empty(count, np.int64)
    earliest, latest = np.empty((clusters, 2)), np.empty((clusters, 2))
    load = np.zeros(clusters)
    for x in range(count):
        load[cluster[x]] += seconds[x]
    known[anchor] = WITH
    for c in range(clusters):
        if apart[anchor, c]:
            if known[c] == WITH:
                return -1
            known[c] = WITHOUT
    rounds = 0
    while True:
        rounds += 1
        two_ways(seconds, cluster, loose, apart, known, base_head, in_start, in_from, in_delay, others, head)
        two_ways(
            seconds[::-1].copy(), cluster[::-1].copy(), loose, apart, known, base_tail, back_start, back_from,
            back_delay, others, tail,
        )  # fmt: skip
        longest[:] = 0.0
        earliest[:], latest[:] = np.inf, np.inf
        for x in range(count):
            c = cluster[x]
            for where in range(2):
                h, q = head[x, where], tail[count - 1 - x, where]
                longest[c, where] = max(longest[c, where], h + seconds[x] + q)
                earliest[c, where] = min(earliest[c, where], h)
                latest[c, where] = min(latest[c, where], q)
        changed = False
        for c in range(clusters):
            if loose[c]:
                if min(longest[c, 0], longest[c, 1]) > limit:
                    return -rounds
                continue
            if known[c] == FREE:
                if longest[c, 0] > limit and longest[c, 1] > limit:
                    return -rounds
                if longest[c, 0] > limit:
                    known[c] = WITHOUT
                    changed = True
                elif longest[c, 1] > limit:
                    known[c] = WITH
                    changed = True
            elif longest[c, known[c] - WITH] > limit:
                return -rounds
        if changed:
            continue
        for where in range(2 if others == 1 else 1):
            least_head, least_tail, taken, bytes_held, size = np.inf, np.inf, 0.0, 0.0, 0
            for x in range(count):
                if known[cluster[x]] == WITH + where:
                    jobs[size] = x
                    size += 1
            for c in range(clusters):
                if known[c] == WITH + where and not loose[c]:
                    least_head = min(least_head, earliest[c, where])
                    least_tail = min(least_tail, latest[c, where])
                    taken += load[c]
                    bytes_held += held[c]
            if bytes_held > cap:
                return -rounds
            if size > 0:
                tails = tail[::-1, where].copy()
                if preemptive_span(jobs, size, head[:, where].copy(), seconds, tails) > limit:
                    return -rounds
            for c in range(clusters):
                if known[c] != FREE or loose[c]:
                    continue
                span = min(least_head, earliest[c, where]) + taken + load[c] + min(least_tail, latest[c, where])
                if span > limit or bytes_held + held[c] > cap:
                    known[c] = WITHOUT - where
                    changed = True
        if changed:
            continue
        if not _wires_have_time(limit, seconds, cluster, known, wires, head, tail):
            return -rounds
        return rounds if _there_is_time(limit, others, clusters, known, loose, load, earliest, latest) else -rounds


@njit(cache=True)
def _wires_have_time(
    limit: float, seconds: Floats, cluster: Ints, known: Ints, wires: Wires, head: Floats, tail: Floats
) -> bool:
    """Whether what carries messages from the anchor's device and to it can carry those that must cross.

    A message crosses at least once for producers on the one side and readers on the other; it starts after
    these producers, and something follows it: all of them where they share a device, else one at least.
    """
    if wires.leaving == NOTHING:
        return True
    count, messages = len(seconds), len(wires.seconds)
    compute = wires.leaving == DEVICE
    size = 2 * messages + (count if compute else 0)
    ready, takes, after = np.empty(size), np.empty(size), np.empty(size)
    on = np.empty(size, np.int64)
    jobs = 0
    for m in range(messages):
        for where in range(2):  # of the producers
            ends, follows = -1.0, -1.0
            for k in range(wires.producer_start[m], wires.producer_start[m + 1]):
                x = wires.producer[k]
                if known[cluster[x]] == WITH + where:
                    ends = max(ends, head[x, where] + seconds[x])
            if ends < 0.0:
                continue
            for k in range(wires.reader_start[m], wires.reader_start[m + 1]):
                x = wires.reader[k]
                if known[cluster[x]] == WITHOUT - where:
                    follows = max(follows, seconds[x] + tail[count - 1 - x, 1 - where])
            if follows < 0.0:
                continue
            ready[jobs], takes[jobs], after[jobs] = ends, wires.seconds[m], follows
            on[jobs] = wires.leaving if where == 0 else wires.reaching
            jobs += 1
    if jobs == 0:
        return True
    if compute:
        for x in range(count):
            if known[cluster[x]] == WITH:
                ready[jobs], takes[jobs], after[jobs] = head[x, 0], seconds[x], tail[count - 1 - x, 0]
                on[jobs] = DEVICE
                jobs += 1
    for wire in (0, 1, DEVICE):
        mine = np.flatnonzero(on[:jobs] == wire)
        if len(mine) > 0 and preemptive_span(mine, len(mine), ready, takes, after) > limit:
            return False
    return True


@njit(cache=True)
def _there_is_time(
    limit: float, others: int, clusters: int, known: Ints, loose: Flags, load: Floats, earliest: Floats,
    latest: Floats,
) -> bool:  # fmt: skip
    """Whether the anchor's device and the others together have the time for all, from when each can start at
    the earliest until it must end."""
    work = 0.0
    start, end = np.array([np.inf, np.inf]), np.array([np.inf, np.inf])
    for c in range(clusters):
        if loose[c]:
            work += load[c]
            for where in range(2):
                start[where], end[where] = min(start[where], earliest[c, where]), min(end[where], latest[c, where])
            continue
        work += load[c]
        for where in range(2):
            if known[c] != WITHOUT - where:
                start[where] = min(start[where], earliest[c, where])
                end[where] = min(end[where], latest[c, where])
    room = 0.0
    for where in range(2):
        devices = 1 if where == 0 else others
        if start[where] < np.inf:
            room += devices * max(0.0, limit - start[where] - end[where])
    return work <= room
