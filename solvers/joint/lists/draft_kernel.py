"""A list schedule in the making: jobs on devices, and their transfers on what carries them, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.joint.lists.jobs_kernel import CHANNEL, FREE, NONE, JobArrays
from solvers.joint.passes.arrays_kernel import transfer_s
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.plain import NO, YES
from solvers.kernels.uncounted import inlined

COUNT, SPANS = 0, 1
"""Places in `Draft.counts`: jobs scheduled, and spans on resources."""


class Rule(NamedTuple):
    """How a list scheduler plans. mode: CHANNEL, LINKS or FREE, what carries transfers. gaps: whether what is free
    between others may be taken."""

    mode: int
    gaps: bool


class Draft(NamedTuple):
    """Resources are devices, then channels or those of the problem.

    A span occupies a resource; spans are numbered as they are inserted, and linked by time on each resource.
    """

    device: Ints
    """[jobs], NONE until it is scheduled"""
    start_s: Floats
    """[jobs] s"""
    end_s: Floats
    """[jobs] s"""
    turn: Ints
    """[jobs] how many were scheduled before"""
    unit_device: Ints
    """[units], NONE before its first job is scheduled"""
    held_bytes: Floats
    """[devices] B of the units there"""
    arrival_s: Floats
    """[messages, senders, receivers] s, -1 until it is sent"""
    departure_s: Floats
    """[messages, senders] s, -1 until it is sent"""
    from_s: Floats
    """[spans] s"""
    until_s: Floats
    """[spans] s"""
    on: Ints
    """[spans] the resource"""
    before: Ints
    """[spans] the one before on its resource, or NONE"""
    behind: Ints
    """[spans] the one after, or NONE"""
    tail: Ints
    """[resources] the last span, or NONE"""
    counts: Ints
    """[2] at COUNT and SPANS"""


def draft_of(a: JobArrays) -> Draft:
    """The schedule before the first job."""
    jobs, devices = a.seconds.shape
    messages = len(a.producer_start) - 1
    makers = np.diff(a.producer_start)
    spans = jobs + int((makers * 2 * devices).sum()) + 2 * devices * int(np.diff(a.read_start).max(initial=0)) + 2
    return Draft(
        device=np.full(jobs, NONE),
        start_s=np.zeros(jobs),
        end_s=np.zeros(jobs),
        turn=np.zeros(jobs, np.int64),
        unit_device=np.full(len(a.allowed), NONE),
        held_bytes=np.zeros(devices),
        arrival_s=np.full((messages, devices, devices), -1.0),
        departure_s=np.full((messages, devices), -1.0),
        from_s=np.zeros(spans),
        until_s=np.zeros(spans),
        on=np.zeros(spans, np.int64),
        before=np.full(spans, NONE),
        behind=np.full(spans, NONE),
        tail=np.full(devices + max(devices, int(a.wiring.resources)), NONE),
        counts=np.zeros(2, np.int64),
    )


@inlined
def free_s(s: Draft, resource: int) -> float:
    """When the last span of a resource ends; 0 without any."""
    return s.until_s[s.tail[resource]] if s.tail[resource] != NONE else 0.0


@inlined
def _occupy(s: Draft, resource: int, ready: float, seconds: float, gaps: bool) -> float:
    """Occupy a resource from ``ready`` on, in the first gap that is long enough or, unless ``gaps``, behind all that is
    there; when the span begins."""
    later = NONE
    earlier = s.tail[resource]
    start = ready
    if gaps:
        while earlier != NONE and s.until_s[earlier] > ready:
            later = earlier
            earlier = s.before[earlier]
        while later != NONE and s.from_s[later] - start < seconds:
            start = max(start, s.until_s[later])
            earlier = later
            later = s.behind[later]
    else:
        start = max(ready, free_s(s, resource))
    span = s.counts[SPANS]
    s.counts[SPANS] += 1
    s.on[span] = resource
    s.from_s[span], s.until_s[span] = start, start + seconds
    s.before[span], s.behind[span] = earlier, later
    if earlier != NONE:
        s.behind[earlier] = span
    if later != NONE:
        s.before[later] = span
    else:
        s.tail[resource] = span
    return start


@inlined
def _withdraw(s: Draft, spans: int) -> None:
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
            s.tail[s.on[span]] = earlier


@inlined
def _source_of(a: JobArrays, s: Draft, m: int, place: int, dst: int) -> int:
    """The device of ``producer[place]`` if it sends message ``m`` to ``dst``, else NONE.

    It does not where it is not scheduled (the job itself) or on ``dst``, or where an earlier producer on its device
    sends for all of them.
    """
    src = s.device[a.producer[place]]
    if src == dst:
        src = NONE
    for f in range(a.producer_start[m], place):
        if src != NONE and s.device[a.producer[f]] == src:
            src = NONE
    return int(src)


@inlined
def _sent_s(a: JobArrays, s: Draft, m: int, src: int, dst: int, how: Rule, commit: bool) -> float:
    """When a message that is still to be sent is on ``dst``; occupies what carries it."""
    w, devices = a.wiring, a.seconds.shape[1]
    seconds = transfer_s(w, m, src, dst)
    made = 0.0
    for f in range(a.producer_start[m], a.producer_start[m + 1]):
        if s.device[a.producer[f]] == src:
            made = max(made, s.end_s[a.producer[f]])
    if how.mode == FREE or not seconds < np.inf:
        return made + seconds
    if how.mode == CHANNEL:  # the receiver may begin later than the sender
        made = _occupy(s, devices + src, made, seconds, how.gaps)
        return _occupy(s, devices + dst, made, seconds, how.gaps) + seconds
    out, into = w.leave[src], w.arrive[src, dst]
    if out != NONE:
        if s.departure_s[m, src] >= 0:
            made = s.departure_s[m, src]
        else:
            made = _occupy(s, out if out < devices else devices + out, made, seconds, how.gaps) + seconds
            if commit:
                s.departure_s[m, src] = made
    if into != NONE:
        made = _occupy(s, into if into < devices else devices + into, made, seconds, how.gaps) + seconds
    return made


@inlined
def _inputs_s(a: JobArrays, s: Draft, job: int, dst: int, how: Rule, commit: bool) -> float:
    """When the last tensor that a job reads from elsewhere is on device ``dst``; spans are inserted on the way."""
    latest = 0.0
    for e in range(a.read_start[job], a.read_start[job + 1]):
        m = a.read[e]
        for f in range(a.producer_start[m], a.producer_start[m + 1]):
            src = _source_of(a, s, m, f, dst)
            if src == NONE:
                continue
            there = s.arrival_s[m, src, dst]
            if there < 0:
                there = _sent_s(a, s, m, src, dst, how, commit)
                if commit:
                    s.arrival_s[m, src, dst] = there
            latest = max(latest, there)
    return latest


@inlined
def may_take(a: JobArrays, s: Draft, unit: int, d: int, caps: Floats) -> bool:
    """Whether a device has a unit already, or may have and hold it. caps: [devices] B."""
    if s.unit_device[unit] != NONE:
        return bool(s.unit_device[unit] == d)
    return bool(a.allowed[unit, d] and s.held_bytes[d] + a.unit_bytes[unit] <= caps[d])


@inlined
def would_start_s(a: JobArrays, s: Draft, job: int, d: int, ready: float, how: Rule) -> float:
    """When a job could start on a device, from ``ready`` on; all is left as it was."""
    spans = s.counts[SPANS]
    start = max(ready, _inputs_s(a, s, job, d, how, NO))
    if a.wiring.one_by_one[d] and start < np.inf:
        start = _occupy(s, d, start, a.seconds[job, d], how.gaps)
    _withdraw(s, spans)
    return start


@inlined
def put(a: JobArrays, s: Draft, job: int, d: int, ready: float, how: Rule) -> None:
    """Schedule a job on a device as early as it can start there, from ``ready`` on."""
    unit = a.unit_of[job]
    if s.unit_device[unit] == NONE:
        s.unit_device[unit] = d
        s.held_bytes[d] += a.unit_bytes[unit]
    start = max(ready, _inputs_s(a, s, job, d, how, YES))
    if a.wiring.one_by_one[d]:
        start = _occupy(s, d, start, a.seconds[job, d], how.gaps)
    s.device[job], s.start_s[job], s.end_s[job], s.turn[job] = d, start, start + a.seconds[job, d], s.counts[COUNT]
    s.counts[COUNT] += 1
