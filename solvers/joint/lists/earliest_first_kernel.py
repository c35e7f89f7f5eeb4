"""Earliest task first with memory and favourite children, on plain arrays.

m-ETF and m-SCT of Jeon et al., "Baechi", SoCC 2020, section 3: the earliest-task-first rule of Hwang et al.
1989 and the favourite children of Hanen and Munier 1995, with a cap on what a device holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.joint.lists.jobs_kernel import CHANNEL, FREE, NONE, JobArrays, made_s, moving_s, source_of
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.lazy import njit
from solvers.kernels.plain import NO, YES

GOING, DONE, STUCK = 0, 1, 2
"""Whether there is more to do, every job is scheduled, or none of those left fits anywhere."""
COUNT, READY = 0, 1
"""Places in `EtfState.counts`: jobs scheduled, and jobs all of whose predecessors are."""


class EtfState(NamedTuple):
    """A schedule in the making."""

    device: Ints  # [jobs], NONE until it is scheduled
    start_s: Floats  # [jobs]
    end_s: Floats  # [jobs]
    turn: Ints  # [jobs], how many were scheduled before
    unit_device: Ints  # [units], NONE until the first job of a unit is scheduled
    held_bytes: Floats  # [devices]
    free_s: Floats  # [devices], when each is free
    last: Ints  # [devices], its last job
    channel_s: Floats  # [channels or resources], when each is free
    arrival_s: Floats  # [messages, senders, receivers], -1 until it is sent
    departure_s: Floats  # [messages, senders], -1 until it is sent
    after_s: Floats  # [jobs], when the last predecessor scheduled so far ends
    waits: Ints  # [jobs], predecessors still to be scheduled
    ready: Ints  # [jobs], those without such, the first ``counts[READY]``
    place: Ints  # [jobs], their places in ``ready``, or NONE
    counts: Ints  # at COUNT and READY
    now_s: Floats  # [1]
    earliest_s: Floats  # [places in ready, devices], scratch
    undo: Ints  # scratch of a dry run: channels occupied
    undo_s: Floats  # scratch of a dry run: when each was free


def etf_state(a: JobArrays) -> EtfState:
    """The state before the first job is scheduled."""
    jobs, devices = a.seconds.shape
    units, messages = len(a.allowed), len(a.producer_start) - 1
    most = int(np.diff(a.read_start).max(initial=0)) * devices * 2 + 2
    state = EtfState(
        device=np.full(jobs, NONE),
        start_s=np.zeros(jobs),
        end_s=np.zeros(jobs),
        turn=np.zeros(jobs, np.int64),
        unit_device=np.full(units, NONE),
        held_bytes=np.zeros(devices),
        free_s=np.zeros(devices),
        last=np.full(devices, NONE),
        channel_s=np.zeros(max(devices, int(a.resources))),
        arrival_s=np.full((messages, devices, devices), -1.0),
        departure_s=np.full((messages, devices), -1.0),
        after_s=np.zeros(jobs),
        waits=a.waits.copy(),
        ready=np.zeros(jobs, np.int64),
        place=np.full(jobs, NONE),
        counts=np.zeros(2, np.int64),
        now_s=np.zeros(1),
        earliest_s=np.zeros((jobs, devices)),
        undo=np.zeros(most, np.int64),
        undo_s=np.zeros(most),
    )
    for job in np.flatnonzero(a.waits == 0):
        state.place[job] = state.counts[READY]
        state.ready[state.counts[READY]] = job
        state.counts[READY] += 1
    return state


@njit(cache=True)
def inputs_s(a: JobArrays, s: EtfState, job: int, dst: int, mode: int, commit: bool) -> float:
    """When the last tensor that a job reads from elsewhere is on device ``dst``, in seconds; 0 if none is.

    All producers are scheduled. commit: occupy channels and cache the tensors; else everything is left as it was.
    """
    latest = 0.0
    undone = 0
    for e in range(a.read_start[job], a.read_start[job + 1]):
        m = a.read[e]
        low, high = a.producer_start[m], a.producer_start[m + 1]
        for f in range(low, high):
            src = source_of(a.producer, low, f, s.device, dst)
            if src == NONE:
                continue
            if s.arrival_s[m, src, dst] >= 0:
                latest = max(latest, s.arrival_s[m, src, dst])
                continue
            made = made_s(a.producer, f, high, s.device, s.end_s, src)
            seconds = moving_s(a, m, src, dst)
            if mode == FREE:
                made += seconds
            else:
                if mode == CHANNEL:  # the receiver may begin later than the sender
                    out, into = src, dst
                else:
                    out, into = a.leave[src], a.arrive[src, dst]
                if out != NONE:
                    if mode != CHANNEL and s.departure_s[m, src] >= 0:
                        made = s.departure_s[m, src]
                    else:
                        made = max(made, s.channel_s[out])
                        s.undo[undone], s.undo_s[undone] = out, s.channel_s[out]
                        undone += 1
                        s.channel_s[out] = made + seconds
                        if mode != CHANNEL:
                            made += seconds
                            if commit:
                                s.departure_s[m, src] = made
                if into != NONE:
                    made = max(made, s.channel_s[into]) + seconds
                    s.undo[undone], s.undo_s[undone] = into, s.channel_s[into]
                    undone += 1
                    s.channel_s[into] = made
            if commit:
                s.arrival_s[m, src, dst] = made
            latest = max(latest, made)
    if not commit:
        for i in range(undone - 1, -1, -1):
            s.channel_s[s.undo[i]] = s.undo_s[i]
    return latest


@njit(cache=True)
def _look(a: JobArrays, s: EtfState, caps: Floats, mode: int) -> float:
    """Fill in the earliest start of every ready job on every device; when the next job becomes ready."""
    devices = len(caps)
    now = s.now_s[0]
    following = np.inf
    for k in range(s.counts[READY]):
        job = s.ready[k]
        s.earliest_s[k, :] = np.inf
        if s.after_s[job] > now:
            following = min(following, s.after_s[job])
            continue
        unit = a.unit_of[job]
        for d in range(devices):
            if s.unit_device[unit] != NONE:
                if s.unit_device[unit] != d:
                    continue
            elif not a.allowed[unit, d] or s.held_bytes[d] + a.unit_bytes[unit] > caps[d]:
                continue
            start = max(now, inputs_s(a, s, job, d, mode, NO))
            if a.one_by_one[d]:
                start = max(start, s.free_s[d])
                if mode != CHANNEL and a.leave[d] == d:  # transfers block the device
                    start = max(start, s.channel_s[d])
            s.earliest_s[k, d] = start
    return following


@njit(cache=True)
def _begin(a: JobArrays, s: EtfState, job: int, d: int, mode: int) -> None:
    """Schedule a job on a device as early as it can start there."""
    unit = a.unit_of[job]
    if s.unit_device[unit] == NONE:
        s.unit_device[unit] = d
        s.held_bytes[d] += a.unit_bytes[unit]
    start = max(s.now_s[0], inputs_s(a, s, job, d, mode, YES))
    if a.one_by_one[d]:
        start = max(start, s.free_s[d])
    end = start + a.seconds[job, d]
    s.device[job], s.start_s[job], s.end_s[job], s.turn[job] = d, start, end, s.counts[COUNT]
    s.free_s[d] = max(s.free_s[d], end)
    if mode != CHANNEL and a.leave[d] == d:
        s.channel_s[d] = max(s.channel_s[d], end)
    s.last[d] = job
    s.counts[COUNT] += 1
    s.counts[READY] -= 1
    other = s.ready[s.counts[READY]]
    s.ready[s.place[job]], s.place[other] = other, s.place[job]
    s.place[job] = NONE
    for e in range(a.after_start[job], a.after_start[job + 1]):
        target = a.after[e]
        s.after_s[target] = max(s.after_s[target], end)
        s.waits[target] -= 1
        if s.waits[target] == 0:
            s.place[target] = s.counts[READY]
            s.ready[s.counts[READY]] = target
            s.counts[READY] += 1


@njit(cache=True)
def _awaits(a: JobArrays, s: EtfState, favourite: Ints, d: int) -> int:
    """The place in ``ready`` of the favourite child that a device waits for, or NONE.

    It waits if its last job has one that is ready, not bound to a device yet, and starts nowhere earlier.
    """
    if s.last[d] == NONE or favourite[s.last[d]] == NONE:
        return NONE
    child = favourite[s.last[d]]
    k = s.place[child]
    if k == NONE or s.unit_device[a.unit_of[child]] != NONE:
        return NONE
    if not s.earliest_s[k, d] < np.inf or s.earliest_s[k, d] > s.earliest_s[k].min():
        return NONE
    return int(k)


@until_worth_it
@njit(cache=True)
def schedule(a: JobArrays, s: EtfState, caps: Floats, favourite: Ints, mode: int, looks: int) -> int:
    """Go on for about so many looks at a job on a device; GOING, DONE or STUCK.

    In a step, of all jobs that can start now, the one with the lowest number starts on the lowest device; or
    time goes on to when something can change. caps: bytes that each device may hold, [devices]. favourite: of
    every job the child that its device should run next, or NONE, [jobs]: then the device waits for that child
    and meanwhile runs only what is urgent, that is, could start now on any device it may run on.
    """
    devices = len(caps)
    while looks > 0:
        if s.counts[COUNT] == len(a.unit_of):
            return DONE
        looks -= (s.counts[READY] + 1) * devices
        following = _look(a, s, caps, mode)
        now = s.now_s[0]
        ready = s.counts[READY]
        chosen, where = NONE, NONE
        for d in range(devices):
            if a.one_by_one[d] and s.free_s[d] > now:
                following = min(following, s.free_s[d])
                continue
            child = _awaits(a, s, favourite, d)
            best = NONE
            for k in range(ready):
                start = s.earliest_s[k, d]
                if not start < np.inf:
                    continue
                if child != NONE:  # awake: only what is urgent
                    start = 0.0
                    for other in range(devices):
                        if s.earliest_s[k, other] < np.inf:
                            start = max(start, s.earliest_s[k, other])
                if start > now:
                    following = min(following, start)
                elif best == NONE or s.ready[k] < s.ready[best]:
                    best = k
            if child != NONE and best == NONE:
                if s.earliest_s[child, d] <= now:
                    best = child
                else:
                    following = min(following, s.earliest_s[child, d])
            if best != NONE and (chosen == NONE or s.ready[best] < s.ready[chosen]):
                chosen, where = best, d
        if chosen != NONE:
            _begin(a, s, s.ready[chosen], where, mode)
        elif following < np.inf:
            s.now_s[0] = following
        else:
            return STUCK
    return GOING
