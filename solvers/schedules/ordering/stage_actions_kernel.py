"""The event simulation behind pipeline orders, on plain arrays: which action a free device takes next.

Not `solvers.evaluation.Tasks`, in which what runs on a device has a stated order or priority: here limits on
micro-batches in flight and on memory decide as it goes. For GPT on 4 devices in 64 micro-batches (512 actions) an
order takes 0.2 ms and the replay of a given one 0.1 ms; the same plan lowered to tasks and run by the event loop takes
3.1 ms, and a search for an order tries dozens (CPU time; 2-core VM, AMD EPYC, 2026-11-24).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit

TIE = 1e-9
"""Relative difference of start times that is none: sums of the same numbers in another order."""


class Actions(NamedTuple):
    """What a pipeline is made of: one row per stage and kind, [actions]; rows of lists are start + items.

    seconds: of one micro-batch. counts: micro-batches. size: samples of one. stage: whose it is. opens, turns,
    closes: whether it is a stage's forward, the first and the last part of its backward (an action can be
    both of these; none of them in a stage without both passes). at: the devices that run it together.
    reads: the actions whose tensors it needs, and how long these are under way. readers: the actions to
    look at once it ran.
    """

    seconds: Floats
    counts: Ints
    size: Ints
    stage: Ints
    opens: Bools
    turns: Bools
    closes: Bools
    at_start: Ints
    at: Ints
    reads_start: Ints
    reads: Ints
    delay_s: Floats
    readers_start: Ints
    readers: Ints


@njit(cache=True)
def event_order(
    actions: Actions,
    rank: Ints,
    ahead: Ints,
    limit: Ints,
    weight: Floats,
    budget: Floats,
    fills: Bools,
    patience: float,
) -> tuple[Ints, Floats, int]:
    """(action, when it ended) of every task in the order in which tasks start, and how many there are.

    Whenever a device is free it takes the action that can start first; of those the one of least
    ``rank``, [actions], then the earlier samples, then, of forwards the later stage, else the earlier.
    ahead, limit: most micro-batches a stage has opened and not turned, and not closed, [stages]; weight x
    the latter, summed over a device's stages, is at most ``budget``, [devices]. fills: actions that wait if
    on one of their devices another that is no filler can start within ``patience`` times their seconds.
    Fewer tasks than there are: the limits left nothing to do.
    """
    many, stages, devices = len(actions.seconds), len(limit), len(budget)
    total = actions.counts.sum()
    first = np.zeros(many + 1, np.int64)
    for a in range(many):
        first[a + 1] = first[a] + actions.counts[a]
    ended = np.zeros(total)
    sequence, when = np.zeros(total, np.int64), np.zeros(total)
    done = np.zeros(many, np.int64)
    held, unturned = np.zeros(stages, np.int64), np.zeros(stages, np.int64)
    ready, stale = np.zeros(many), np.ones(many, np.bool_)
    free, load = np.zeros(devices), np.zeros(devices)
    start = np.zeros(many)
    for n in range(total):
        for a in range(many):
            start[a] = np.inf
            if done[a] == actions.counts[a]:
                continue
            if stale[a]:
                ready[a] = _ready_s(actions, a, done, first, ended)
                stale[a] = False
            if ready[a] == np.inf:
                continue
            if actions.opens[a]:
                stage = actions.stage[a]
                if unturned[stage] >= ahead[stage] or held[stage] >= limit[stage]:
                    continue
                if not _has_room(actions, a, weight[stage], load, budget):
                    continue
            start[a] = ready[a]
            for k in range(actions.at_start[a], actions.at_start[a + 1]):
                start[a] = max(start[a], free[actions.at[k]])
        best = -1
        for a in range(many):
            if start[a] == np.inf:
                continue
            if fills[a] and patience > 0:
                _give_way(actions, a, fills, start, patience * actions.seconds[a])
            if best < 0 or _precedes(actions, a, best, start, done, rank):
                best = a
        if best < 0:
            return sequence, when, n
        begin = ready[best]
        for k in range(actions.at_start[best], actions.at_start[best + 1]):
            begin = max(begin, free[actions.at[k]])
        end = begin + actions.seconds[best]
        ended[first[best] + done[best]] = end
        sequence[n], when[n] = best, end
        done[best] += 1
        stale[best] = True
        for k in range(actions.readers_start[best], actions.readers_start[best + 1]):
            stale[actions.readers[k]] = True
        change = 1 if actions.opens[best] else -1 if actions.closes[best] else 0
        held[actions.stage[best]] += change
        unturned[actions.stage[best]] += 1 if actions.opens[best] else -1 if actions.turns[best] else 0
        for k in range(actions.at_start[best], actions.at_start[best + 1]):
            free[actions.at[k]] = end
            load[actions.at[k]] += change * weight[actions.stage[best]]
    return sequence, when, total


@njit(cache=True)
def _ready_s(actions: Actions, a: int, done: Ints, first: Ints, ended: Floats) -> float:
    """When the next micro-batch of an action has its inputs; inf if that is not known yet."""
    ready = 0.0
    for k in range(actions.reads_start[a], actions.reads_start[a + 1]):
        source = actions.reads[k]
        # The last micro-batch of the source that has samples of this one.
        last = -(-(done[a] + 1) * actions.counts[source] // actions.counts[a]) - 1
        if done[source] <= last:
            return np.inf
        ready = max(ready, ended[first[source] + last] + actions.delay_s[k])
    return ready


@njit(cache=True)
def _has_room(actions: Actions, a: int, weight: float, load: Floats, budget: Floats) -> bool:
    for k in range(actions.at_start[a], actions.at_start[a + 1]):
        device = actions.at[k]
        if load[device] + weight > budget[device] * (1 + TIE):
            return False
    return True


@njit(cache=True)
def _give_way(actions: Actions, a: int, fills: Bools, start: Floats, patience_s: float) -> None:
    """Put a filler off to the first other action that its device can start soon."""
    until = np.inf
    for b in range(len(start)):
        if fills[b] or not start[a] < start[b] < start[a] + patience_s:
            continue
        for k in range(actions.at_start[a], actions.at_start[a + 1]):
            for i in range(actions.at_start[b], actions.at_start[b + 1]):
                if actions.at[k] == actions.at[i]:
                    until = min(until, start[b])
    if until < np.inf:
        start[a] = until


@njit(cache=True)
def _precedes(actions: Actions, a: int, b: int, start: Floats, done: Ints, rank: Ints) -> bool:
    if abs(start[a] - start[b]) > TIE * max(start[a], start[b]):
        return bool(start[a] < start[b])
    if rank[a] != rank[b]:
        return bool(rank[a] < rank[b])
    samples_a, samples_b = done[a] * actions.size[a], done[b] * actions.size[b]
    if samples_a != samples_b:
        return bool(samples_a < samples_b)
    if actions.opens[a] and actions.opens[b]:
        return bool(actions.stage[a] > actions.stage[b])
    return bool(actions.stage[a] < actions.stage[b])


@njit(cache=True)
def replay_order(actions: Actions, order_start: Ints, order: Ints) -> tuple[Ints, Floats, int]:
    """`event_order` for devices that follow an order each: rows of actions, the micro-batches of a row in
    turn. Fewer tasks than there are: the order deadlocks."""
    many, devices = len(actions.seconds), len(order_start) - 1
    total = actions.counts.sum()
    first = np.zeros(many + 1, np.int64)
    for a in range(many):
        first[a + 1] = first[a] + actions.counts[a]
    ended = np.zeros(total)
    sequence, when = np.zeros(total, np.int64), np.zeros(total)
    done, at, free = np.zeros(many, np.int64), order_start[:-1].copy(), np.zeros(devices)
    n, moved = 0, True
    while moved:
        moved = False
        for device in range(devices):
            while at[device] < order_start[device + 1]:
                a = order[at[device]]
                begin = _ready_s(actions, a, done, first, ended)
                for k in range(actions.at_start[a], actions.at_start[a + 1]):
                    other = actions.at[k]
                    if at[other] == order_start[other + 1] or order[at[other]] != a:
                        begin = np.inf
                    begin = max(begin, free[other])
                if begin == np.inf:
                    break
                end = begin + actions.seconds[a]
                ended[first[a] + done[a]] = end
                sequence[n], when[n] = a, end
                n, moved = n + 1, True
                done[a] += 1
                for k in range(actions.at_start[a], actions.at_start[a + 1]):
                    free[actions.at[k]] = end
                    at[actions.at[k]] += 1
    return sequence, when, n
