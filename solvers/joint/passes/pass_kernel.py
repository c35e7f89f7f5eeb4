"""Simulate one unsplit pass of operators for a placement, by priorities or in a fixed order, on plain arrays.

The same rules as `solvers.evaluation`, for plans in which every operator is a task of its own; apart from it because
its kernels take 7 to 17 times as long for one placement (docs/benchmarks.md, "One simulator"). A message leaves a
device when all that make it there are done, once for every other device that reads it; links, lanes and devices take
the most urgent ready task and never idle while there is one.
"""

from __future__ import annotations

import numpy as np

from solvers.joint.passes.arrays_kernel import (
    ARRIVAL,
    BEGUN,
    DEPARTURE,
    DIRTY,
    DONE,
    EVENTS,
    NONE,
    OPERATOR,
    READY,
    TASKS,
    PassArrays,
    PassState,
    transfer_s,
)
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.heap_kernel import pop, pop_event, push, push_event
from solvers.kernels.uncounted import inlined, uncounted


@inlined
def _wake(s: PassState, task: int) -> None:
    """Note that a task became ready at this instant."""
    s.ready[s.counts[READY]] = task
    s.counts[READY] += 1


@inlined
def _wait_less(s: PassState, operator: int, by: int) -> None:
    """Note that an operator waits for so many things less."""
    s.waiting[operator] -= by
    if s.waiting[operator] == 0:
        _wake(s, operator)


@inlined
def _look_at(s: PassState, resource: int) -> None:
    """Note that a resource is free again, or has one more ready task."""
    if not s.is_dirty[resource]:
        s.is_dirty[resource] = True
        s.dirty[s.counts[DIRTY]] = resource
        s.counts[DIRTY] += 1


@inlined
def _reset(a: PassArrays, s: PassState, place: Ints, rank: Floats, follow: Ints) -> None:
    """Reset the state for a placement; operators that wait for nothing are ready."""
    operators, devices = a.seconds.shape
    s.counts[:] = 0
    s.counts[TASKS] = operators
    s.urgent[:] = np.inf
    for r in range(len(s.load_s)):
        s.waits_for[r] = 0
        s.is_busy[r] = False
        s.is_dirty[r] = False
        s.load_s[r] = 0.0
    for i in range(operators):
        d = place[a.group_of[i]]
        s.device[i] = d
        s.waiting[i] = a.waits[i]
        s.priority[i] = rank[i]
        s.code[i] = OPERATOR * (np.int64(1) << 48) + i
        s.end_s[i] = a.seconds[i, d]  # its duration, until it starts
        s.start_s[i] = np.inf
        s.resource[i] = NONE
        if a.wiring.one_by_one[d]:
            s.resource[i] = d
            s.load_s[d] += a.seconds[i, d]
    for i in range(operators):
        if follow[i] != NONE and s.resource[i] != NONE:
            s.waiting[follow[i]] += 1
    for i in range(operators):
        if s.waiting[i] == 0:
            _wake(s, i)
    for m in range(len(a.producer_start) - 1):
        if a.producer_start[m + 1] - a.producer_start[m] > 1:
            for d in range(devices):
                s.missing[m * devices + d] = 0
            for e in range(a.producer_start[m], a.producer_start[m + 1]):
                s.missing[m * devices + s.device[a.producer[e]]] += 1


@inlined
def _start(s: PassState, task: int, now: float, tail_s: Floats, limit_s: float, slack: float) -> bool:
    """Start a task; whether the pass may still end in time."""
    seconds = s.end_s[task]
    s.start_s[task] = now
    s.end_s[task] = now + seconds
    in_time = s.end_s[task] <= limit_s
    if task < len(s.sequence):
        in_time = in_time and now + tail_s[task] <= slack
        r = s.resource[task]
        if r != NONE:
            # What a device has yet to run follows without a gap at best.
            in_time = in_time and now + s.load_s[r] <= slack
            s.load_s[r] -= seconds
        s.sequence[task] = s.counts[BEGUN]
        s.counts[BEGUN] += 1
    push_event(s.until, s.events, s.counts[EVENTS], s.end_s[task], task)
    s.counts[EVENTS] += 1
    return bool(in_time)


@inlined
def _start_all(s: PassState, now: float, tail_s: Floats, limit_s: float, slack: float) -> bool:
    """Start what became ready and needs no resource, then the most urgent task of every free resource; whether the
    pass may still end in time."""
    most = len(s.keys) // len(s.load_s)  # places in the queue of a resource
    in_time = True
    for i in range(s.counts[READY]):
        task = s.ready[i]
        r = s.resource[task]
        if r == NONE:
            in_time = in_time and _start(s, task, now, tail_s, limit_s, slack)
        else:
            push(s.keys, s.queued, r * most, s.waits_for[r], s.priority[task], task, s.code)
            s.waits_for[r] += 1
            _look_at(s, r)
    s.counts[READY] = 0
    for i in range(s.counts[DIRTY]):
        r = s.dirty[i]
        s.is_dirty[r] = False
        if not s.is_busy[r] and s.waits_for[r] > 0:
            task = pop(s.keys, s.queued, r * most, s.waits_for[r], s.code)
            s.waits_for[r] -= 1
            s.is_busy[r] = True
            in_time = in_time and _start(s, task, now, tail_s, limit_s, slack)
    s.counts[DIRTY] = 0
    return in_time


@inlined
def _deliver(a: PassArrays, s: PassState, m: int, src: int, dst: int) -> None:
    """A message from ``src`` is on ``dst``: its readers there wait for all its makers on ``src`` no more."""
    carried = 0
    for e in range(a.producer_start[m], a.producer_start[m + 1]):
        carried += s.device[a.producer[e]] == src
    for e in range(a.reader_start[m], a.reader_start[m + 1]):
        if s.device[a.reader[e]] == dst:
            _wait_less(s, a.reader[e], carried)


@inlined
def _new_transfer(s: PassState, m: int, src: int, dst: int, priority: float, seconds: float) -> int:
    """The number of a new task that moves message ``m``, its sending half where ``dst`` is ``src``."""
    task = s.counts[TASKS]
    s.counts[TASKS] += 1
    devices = len(s.urgent)
    kind = DEPARTURE if src == dst else ARRIVAL
    s.device[task] = src
    s.message[task] = m
    s.target[task] = dst
    s.priority[task] = priority
    s.code[task] = kind * (np.int64(1) << 48) + (m * devices + src) * devices + dst
    s.end_s[task] = seconds  # its duration, until it starts
    s.half[task] = NONE
    return int(task)


@inlined
def _read_here(a: PassArrays, s: PassState, m: int, here: int, rank: Floats) -> int:
    """Give a message to its readers on the device that made it, and gather the other devices that have some in
    ``towards``; how many they are."""
    away = 0
    for f in range(a.reader_start[m], a.reader_start[m + 1]):
        target = a.reader[f]
        dst = s.device[target]
        if dst == here:
            _wait_less(s, target, 1)
        else:
            if s.urgent[dst] == np.inf:
                s.towards[away] = dst
                away += 1
            s.urgent[dst] = min(s.urgent[dst], rank[target])
    return away


@inlined
def _send(a: PassArrays, s: PassState, m: int, here: int, away: int, rank: Floats) -> None:
    """Make the transfers of a complete message to the first ``away`` devices in ``towards``."""
    w = a.wiring
    departure = NONE  # a chain of the arrivals that wait for one departure
    slowest = 0.0
    for f in range(away):
        dst = s.towards[f]
        seconds = transfer_s(w, m, here, dst)
        slowest = max(slowest, seconds)
        # An order constraint has nothing to move; between CPUs nothing is paid.
        if w.message_tensors[m] == 0 or (w.arrive[here, dst] == NONE and w.leave[here] == NONE):
            _deliver(a, s, m, here, dst)
            continue
        task = _new_transfer(s, m, here, dst, s.urgent[dst], seconds)
        s.resource[task] = w.arrive[here, dst]
        if w.leave[here] == NONE:
            _wake(s, task)
        else:
            s.half[task] = departure
            departure = task
    if departure != NONE:
        latest = -np.inf
        for f in range(a.producer_start[m], a.producer_start[m + 1]):
            if s.device[a.producer[f]] == here:
                latest = max(latest, rank[a.producer[f]])
        task = _new_transfer(s, m, here, here, latest, slowest)
        s.resource[task] = w.leave[here]
        s.half[task] = departure
        _wake(s, task)


@inlined
def _end_operator(a: PassArrays, s: PassState, task: int, rank: Floats, follow: Ints) -> None:
    """An operator is done: what waited for it, here or for its messages, waits no more."""
    here, devices = s.device[task], len(s.urgent)
    s.counts[DONE] += 1
    if follow[task] != NONE and s.resource[task] != NONE:
        _wait_less(s, follow[task], 1)
    for e in range(a.mirror_start[task], a.mirror_start[task + 1]):
        _wait_less(s, a.mirror[e], 1)
    for e in range(a.made_start[task], a.made_start[task + 1]):
        m = a.made[e]
        away = _read_here(a, s, m, here, rank)
        complete = True
        if away > 0 and a.producer_start[m + 1] - a.producer_start[m] > 1:
            s.missing[m * devices + here] -= 1
            complete = s.missing[m * devices + here] == 0
        if complete:
            _send(a, s, m, here, away, rank)
        for f in range(away):
            s.urgent[s.towards[f]] = np.inf


@inlined
def _end_departure(a: PassArrays, s: PassState, task: int, now: float) -> None:
    """The sending half of a message is done: its arrivals are ready, and CPUs have it, which receive for nothing."""
    arrival = s.half[task]
    while arrival != NONE:
        if s.resource[arrival] == NONE:
            s.start_s[arrival] = now
            s.end_s[arrival] = now
            _deliver(a, s, s.message[task], s.device[task], s.target[arrival])
        else:
            _wake(s, arrival)
        arrival = s.half[arrival]


@uncounted
def run_pass(
    a: PassArrays, s: PassState, place: Ints, rank: Floats, follow: Ints, tail_s: Floats, limit_s: float
) -> float:
    """Seconds of the pass; inf if it lasts longer than ``limit_s`` (given up early), needs a link that is not
    there, or its order deadlocks.

    place: the device of every group. rank: of ready operators the lowest goes first; a transfer is as urgent as
    the most urgent operator it feeds. follow: the operator after each on its device, NONE at the end: with it the
    order is fixed and rank should be the position in it; all NONE: the order is the rank's. tail_s: seconds
    that the pass lasts at least from the start of each operator on (zeros will do). Leaves the times in ``s``.
    """
    operators = len(s.sequence)
    slack = limit_s * (1 + 1e-12)  # sums of times in another order may differ in their last digits
    _reset(a, s, place, rank, follow)
    for r in range(len(s.load_s)):
        if s.load_s[r] > slack:
            return np.inf
    now = 0.0
    while True:
        if not _start_all(s, now, tail_s, limit_s, slack):
            return np.inf
        if s.counts[EVENTS] == 0:
            break
        now = s.until[0]
        # All that ends at this instant ends before anything starts: the most urgent of all that is ready goes first.
        while s.counts[EVENTS] > 0 and s.until[0] == now:
            task = pop_event(s.until, s.events, s.counts[EVENTS])
            s.counts[EVENTS] -= 1
            if s.resource[task] != NONE:
                s.is_busy[s.resource[task]] = False
                _look_at(s, s.resource[task])
            if task < operators:
                _end_operator(a, s, task, rank, follow)
            elif s.target[task] != s.device[task]:
                _deliver(a, s, s.message[task], s.device[task], s.target[task])
            else:
                _end_departure(a, s, task, now)
    return now if s.counts[DONE] == operators else np.inf
