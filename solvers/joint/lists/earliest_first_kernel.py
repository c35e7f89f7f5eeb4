"""Earliest task first with memory and favourite children, on plain arrays.

m-ETF and m-SCT of Jeon et al., "Baechi", SoCC 2020, section 3: the earliest-task-first rule of Hwang et al.
1989 and the favourite children of Hanen and Munier 1995, with a cap on what a device holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.joint.lists.draft_kernel import COUNT, Draft, Rule, free_s, may_take, put, would_start_s
from solvers.joint.lists.jobs_kernel import NONE, JobArrays
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.uncounted import inlined, uncounted

GOING, DONE, STUCK = 0, 1, 2
"""Whether there is more to do, every job is scheduled, or none of those left fits anywhere."""
READY = 0
"""The place in `Waiting.counts` of how many jobs have all predecessors scheduled."""


class Waiting(NamedTuple):
    """The jobs that are still to be scheduled."""

    after_s: Floats
    """[jobs] s when the last predecessor scheduled so far ends"""
    waits: Ints
    """[jobs] predecessors still to be scheduled"""
    ready: Ints
    """[jobs] those without such, the first ``counts[READY]``"""
    place: Ints
    """[jobs] their places in ``ready``, or NONE"""
    counts: Ints
    """[1] at READY"""
    earliest_s: Floats
    """[places in ready, devices] s when each can start where, inf where it cannot"""
    last: Ints
    """[devices] the last job that was scheduled there, or NONE"""
    now_s: Floats
    """[1] s"""


def waiting_of(a: JobArrays) -> Waiting:
    """All jobs."""
    jobs, devices = a.seconds.shape
    first = np.flatnonzero(a.waits == 0)
    ready, place = np.zeros(jobs, np.int64), np.full(jobs, NONE)
    ready[: len(first)] = first
    place[first] = np.arange(len(first))
    return Waiting(
        after_s=np.zeros(jobs), waits=a.waits.copy(), ready=ready, place=place, counts=np.array([len(first)]),
        earliest_s=np.zeros((jobs, devices)), last=np.full(devices, NONE), now_s=np.zeros(1),
    )  # fmt: skip


@inlined
def _look(a: JobArrays, s: Draft, w: Waiting, caps: Floats, how: Rule) -> float:
    """Fill in the earliest start of every ready job on every device; when the next job becomes ready."""
    now = w.now_s[0]
    following = np.inf
    for k in range(w.counts[READY]):
        job = w.ready[k]
        is_ready = w.after_s[job] <= now
        if not is_ready:
            following = min(following, w.after_s[job])
        for d in range(len(caps)):
            w.earliest_s[k, d] = np.inf
            if is_ready and may_take(a, s, a.unit_of[job], d, caps):
                w.earliest_s[k, d] = would_start_s(a, s, job, d, now, how)
    return following


@inlined
def _begin(a: JobArrays, s: Draft, w: Waiting, job: int, d: int, how: Rule) -> None:
    """Schedule a job on a device as early as it can start there; its successors wait for one job less."""
    put(a, s, job, d, w.now_s[0], how)
    w.last[d] = job
    w.counts[READY] -= 1
    other = w.ready[w.counts[READY]]
    w.ready[w.place[job]], w.place[other] = other, w.place[job]
    w.place[job] = NONE
    for e in range(a.after_start[job], a.after_start[job + 1]):
        target = a.after[e]
        w.after_s[target] = max(w.after_s[target], s.end_s[job])
        w.waits[target] -= 1
        if w.waits[target] == 0:
            w.place[target] = w.counts[READY]
            w.ready[w.counts[READY]] = target
            w.counts[READY] += 1


@inlined
def _awaits(a: JobArrays, s: Draft, w: Waiting, favourite: Ints, d: int) -> int:
    """The place in ``ready`` of the favourite child that a device waits for, or NONE.

    It waits if its last job has one that is ready, not bound to a device yet, and starts nowhere earlier.
    """
    child = favourite[w.last[d]] if w.last[d] != NONE else NONE
    k = w.place[child] if child != NONE else NONE
    if k == NONE or s.unit_device[a.unit_of[child]] != NONE or not w.earliest_s[k, d] < np.inf:
        return NONE
    for other in range(w.earliest_s.shape[1]):
        if w.earliest_s[k, other] < w.earliest_s[k, d]:
            return NONE
    return int(k)


@inlined
def _counts_from_s(w: Waiting, k: int, d: int, awake: bool) -> float:
    """From when on a device may run a ready job; inf for never. awake: it waits for another, and runs only what is
    urgent, that is, what could start by then on any device it may run on."""
    start = w.earliest_s[k, d]
    if awake and start < np.inf:
        for other in range(w.earliest_s.shape[1]):
            if w.earliest_s[k, other] < np.inf:
                start = max(start, w.earliest_s[k, other])
    return float(start)


@inlined
def _first_on(a: JobArrays, s: Draft, w: Waiting, favourite: Ints, d: int) -> tuple[int, float]:
    """(the place in ``ready`` of the job that a device should start now, or NONE; when to look again)."""
    now, following = w.now_s[0], np.inf
    if a.wiring.one_by_one[d] and free_s(s, d) > now:
        return NONE, free_s(s, d)
    child = _awaits(a, s, w, favourite, d)
    best = NONE
    for k in range(w.counts[READY]):
        start = _counts_from_s(w, k, d, child != NONE)
        if start > now:
            following = min(following, start)
        elif best == NONE or w.ready[k] < w.ready[best]:
            best = k
    if child != NONE and best == NONE:
        if w.earliest_s[child, d] <= now:
            best = child
        else:
            following = min(following, w.earliest_s[child, d])
    return best, following


@until_worth_it
@uncounted
def schedule(a: JobArrays, s: Draft, w: Waiting, caps: Floats, favourite: Ints, how: Rule, looks: int) -> int:
    """Go on for about so many looks at a job on a device; GOING, DONE or STUCK.

    In a step, of all jobs that can start now, the one with the lowest number starts on the lowest device; or
    time goes on to when something can change. caps: bytes that each device may hold, [devices]. favourite: of
    every job the child that its device should run next, or NONE, [jobs]: then the device waits for that child
    and meanwhile runs only what is urgent.
    """
    while looks > 0:
        if s.counts[COUNT] == len(a.unit_of):
            return DONE
        looks -= (w.counts[READY] + 1) * len(caps)
        following = _look(a, s, w, caps, how)
        chosen, where = NONE, NONE
        for d in range(len(caps)):
            best, again = _first_on(a, s, w, favourite, d)
            following = min(following, again)
            if best != NONE and (chosen == NONE or w.ready[best] < w.ready[chosen]):
                chosen, where = best, d
        if chosen != NONE:
            _begin(a, s, w, w.ready[chosen], where, how)
        elif following < np.inf:
            w.now_s[0] = following
        else:
            return STUCK
    return GOING
