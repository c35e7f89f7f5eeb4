"""Heterogeneous earliest finish time with insertion, for devices and links alike, on plain arrays.

HEFT of Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002, section 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.joint.lists.jobs_kernel import CHANNEL, FREE, NONE, JobArrays, made_s, moving_s, source_of
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.lazy import njit
from solvers.kernels.plain import NO, YES

COUNT, SPANS = 0, 1
"""Places in `HeftState.counts`: jobs scheduled, and spans on resources."""


class HeftState(NamedTuple):
    """A schedule in the making. Resources are devices, then channels or those of the problem.

    A span occupies a resource; spans are numbered as they are inserted, and listed by time on each resource.
    """

    device: Ints  # [jobs], NONE until it is scheduled
    start_s: Floats  # [jobs]
    end_s: Floats  # [jobs]
    unit_device: Ints  # [units], NONE before its first job is scheduled
    held_bytes: Floats  # [devices]
    arrival_s: Floats  # [messages, senders, receivers], -1 until it is sent
    departure_s: Floats  # [messages, senders], -1 until it is sent
    from_s: Floats  # [spans]
    until_s: Floats  # [spans]
    before: Ints  # [spans], the one before on its resource, or NONE
    behind: Ints  # [spans], the one after, or NONE
    tail: Ints  # [resources], the last span, or NONE
    counts: Ints  # at COUNT and SPANS


def heft_state(a: JobArrays) -> HeftState:
    """The state before the first job is scheduled."""
    jobs, devices = a.seconds.shape
    messages = len(a.producer_start) - 1
    makers = np.diff(a.producer_start)
    spans = jobs + int((makers * 2 * devices).sum()) + 2 * devices * int(np.diff(a.read_start).max(initial=0)) + 2
    return HeftState(
        device=np.full(jobs, NONE),
        start_s=np.zeros(jobs),
        end_s=np.zeros(jobs),
        unit_device=np.full(len(a.allowed), NONE),
        held_bytes=np.zeros(devices),
        arrival_s=np.full((messages, devices, devices), -1.0),
        departure_s=np.full((messages, devices), -1.0),
        from_s=np.zeros(spans),
        until_s=np.zeros(spans),
        before=np.full(spans, NONE),
        behind=np.full(spans, NONE),
        tail=np.full(devices + max(devices, int(a.resources)), NONE),
        counts=np.zeros(2, np.int64),
    )


@until_worth_it
@njit(cache=True)
def upward_s(a: JobArrays, rank: Floats) -> None:
    """The upward rank of every job, written to ``rank``: mean seconds to the end of the pass, its own included,
    on the longest path with mean transfers (equation 8)."""
    devices = a.seconds.shape[1]
    for job in range(len(rank) - 1, -1, -1):
        longest = 0.0
        for e in range(a.after_start[job], a.after_start[job + 1]):
            longest = max(longest, a.after_s[e] + rank[a.after[e]])
        total, able = 0.0, 0
        for d in range(devices):
            if a.seconds[job, d] < np.inf:
                total += a.seconds[job, d]
                able += 1
        rank[job] = longest + total / max(1, able)


@njit(cache=True)
def _insert(s: HeftState, resource: int, ready: float, seconds: float) -> float:
    """Occupy the first gap of a resource from ``ready`` on that is long enough; when it begins."""
    later = NONE
    earlier = s.tail[resource]
    while earlier != NONE and s.until_s[earlier] > ready:
        later = earlier
        earlier = s.before[earlier]
    start = ready
    while later != NONE and s.from_s[later] - start < seconds:
        start = max(start, s.until_s[later])
        earlier = later
        later = s.behind[later]
    span = s.counts[SPANS]
    s.counts[SPANS] += 1
    s.from_s[span], s.until_s[span] = start, start + seconds
    s.before[span], s.behind[span] = earlier, later
    if earlier != NONE:
        s.behind[earlier] = span
    if later != NONE:
        s.before[later] = span
    else:
        s.tail[resource] = span
    return start


@njit(cache=True)
def _withdraw(s: HeftState, spans: int) -> None:
    """Take out what was inserted last, until so many spans are left."""
    while s.counts[SPANS] > spans:
        s.counts[SPANS] -= 1
        span = s.counts[SPANS]
        earlier, later = s.before[span], s.behind[span]
        if earlier != NONE:
            s.behind[earlier] = later
        if later != NONE:
            s.before[later] = earlier
        else:
            for r in range(len(s.tail)):
                if s.tail[r] == span:
                    s.tail[r] = earlier


@njit(cache=True)
def _inputs_s(a: JobArrays, s: HeftState, job: int, dst: int, mode: int, commit: bool) -> float:
    """When the last tensor that a job reads from elsewhere is on device ``dst``; spans are inserted on the way."""
    latest = 0.0
    devices = a.seconds.shape[1]
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
            seconds = moving_s(a, m, src, dst)
            if not seconds < np.inf:
                return np.inf
            made = made_s(a.producer, f, high, s.device, s.end_s, src)
            if mode == FREE:
                made += seconds
            elif mode == CHANNEL:  # the receiver may begin later than the sender
                made = _insert(s, devices + src, made, seconds)
                made = _insert(s, devices + dst, made, seconds) + seconds
            else:
                out, into = a.leave[src], a.arrive[src, dst]
                if out != NONE:
                    if s.departure_s[m, src] < 0:
                        made = _insert(s, out if out < devices else devices + out, made, seconds) + seconds
                        if commit:
                            s.departure_s[m, src] = made
                    else:
                        made = s.departure_s[m, src]
                if into != NONE:
                    made = _insert(s, into if into < devices else devices + into, made, seconds) + seconds
            if commit:
                s.arrival_s[m, src, dst] = made
            latest = max(latest, made)
    return latest


@njit(cache=True)
def _end_s(a: JobArrays, s: HeftState, job: int, d: int, mode: int, commit: bool) -> float:
    """When a job ends on a device, in the first gap from when its inputs are there; spans are inserted."""
    ready = 0.0
    for e in range(a.before_start[job], a.before_start[job + 1]):
        ready = max(ready, s.end_s[a.before[e]])
    ready = max(ready, _inputs_s(a, s, job, d, mode, commit))
    if not ready < np.inf:
        return np.inf
    seconds = a.seconds[job, d]
    start = _insert(s, d, ready, seconds) if a.one_by_one[d] else ready
    if commit:
        s.device[job], s.start_s[job], s.end_s[job] = d, start, start + seconds
    end: float = start + seconds
    return end


@until_worth_it
@njit(cache=True)
def schedule_ranked(a: JobArrays, s: HeftState, caps: Floats, order: Ints, mode: int, most: int) -> bool:
    """Schedule up to ``most`` more jobs, each on the device where it ends first; False where one fits nowhere.

    order: jobs by falling rank, a topological order. caps: bytes that each device may hold, [devices].
    """
    devices = len(caps)
    for _ in range(most):
        if s.counts[COUNT] == len(order):
            break
        job = order[s.counts[COUNT]]
        unit = a.unit_of[job]
        best, where = np.inf, NONE
        for d in range(devices):
            if s.unit_device[unit] != NONE:
                if s.unit_device[unit] != d:
                    continue
            elif not a.allowed[unit, d] or s.held_bytes[d] + a.unit_bytes[unit] > caps[d]:
                continue
            spans = s.counts[SPANS]
            end = _end_s(a, s, job, d, mode, NO)
            _withdraw(s, spans)
            if end < best:
                best, where = end, d
        if where == NONE:
            return False
        _end_s(a, s, job, where, mode, YES)
        if s.unit_device[unit] == NONE:
            s.unit_device[unit] = where
            s.held_bytes[where] += a.unit_bytes[unit]
        s.counts[COUNT] += 1
    return True
