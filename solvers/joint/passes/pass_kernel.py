"""Simulate one unsplit pass of operators for a placement, by priorities or in a fixed order, on plain arrays.

The same rules as `solvers.evaluation`, for plans in which every operator is a task of its own; apart from it because
its kernels take 7 to 17 times as long for one placement (docs/benchmarks.md, "One simulator"). A message leaves a
device when all that make it there are done, once for every other device that reads it; links, lanes and devices take
the most urgent ready task and never idle while there is one.
"""

from __future__ import annotations

import numpy as np

from solvers.joint.passes.arrays_kernel import ARRIVAL, DEPARTURE, NONE, OPERATOR, PassArrays, PassState
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.heap_kernel import pop, pop_event, push, push_event
from solvers.kernels.lazy import njit
from solvers.kernels.plain import ZERO


@njit(cache=True)
def _deliver(
    m: int, src: int, dst: int, ready: int, device: Ints, waiting: Ints, waking: Ints, reader_start: Ints, reader: Ints,
    producer_start: Ints, producer: Ints,
) -> int:  # fmt: skip
    """A message from ``src`` is on ``dst``; the new number of ready tasks."""
    carried = 0
    for e in range(producer_start[m], producer_start[m + 1]):
        carried += device[producer[e]] == src
    for e in range(reader_start[m], reader_start[m + 1]):
        target = reader[e]
        if device[target] == dst:
            waiting[target] -= carried
            if waiting[target] == 0:
                waking[ready] = target
                ready += 1
    return ready


@njit(cache=True)
def _begin(a: PassArrays, s: PassState, place: Ints, rank: Floats, follow: Ints) -> int:
    """Reset the state for a placement; the number of tasks that are ready."""
    operators, devices = a.seconds.shape
    device, waiting, priority, code = s.device, s.waiting, s.priority, s.code
    start_s, end_s, resource, missing, waking = s.start_s, s.end_s, s.resource, s.missing, s.ready
    waits_for, is_busy, is_dirty, load_s = s.waits_for, s.is_busy, s.is_dirty, s.load_s
    group_of, waits, seconds, one_by_one = a.group_of, a.waits, a.seconds, a.one_by_one
    producer_start, producer = a.producer_start, a.producer
    for r in range(len(load_s)):
        waits_for[r] = 0
        is_busy[r] = False
        is_dirty[r] = False
        load_s[r] = 0.0
    for i in range(operators):
        d = place[group_of[i]]
        device[i] = d
        waiting[i] = waits[i]
        priority[i] = rank[i]
        code[i] = OPERATOR * (np.int64(1) << 48) + i
        end_s[i] = seconds[i, d]  # its duration, until it starts
        start_s[i] = np.inf
        if one_by_one[d]:
            resource[i] = d
            load_s[d] += seconds[i, d]
        else:
            resource[i] = NONE
    for i in range(operators):
        if follow[i] != NONE and resource[i] != NONE:
            waiting[follow[i]] += 1
    ready = 0
    for i in range(operators):
        if waiting[i] == 0:
            waking[ready] = i
            ready += 1
    for m in range(len(producer_start) - 1):
        if producer_start[m + 1] - producer_start[m] > 1:
            for d in range(devices):
                missing[m * devices + d] = 0
            for e in range(producer_start[m], producer_start[m + 1]):
                missing[m * devices + device[producer[e]]] += 1
    return ready


@njit(cache=True)
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
    ready = _begin(a, s, place, rank, follow)
    operators, devices = a.seconds.shape
    # Taken out of the tuples once: each access would count references.
    waits_for, is_busy, resource, start_s, end_s = s.waits_for, s.is_busy, s.resource, s.start_s, s.end_s
    waking, queue, until, is_dirty, touched, sequence = s.ready, s.events, s.until, s.is_dirty, s.dirty, s.sequence
    device, waiting, missing, load_s, half = s.device, s.waiting, s.missing, s.load_s, s.half
    priority, code, keys, queued = s.priority, s.code, s.keys, s.queued
    most = len(keys) // len(load_s)
    message, destination, towards, urgent_of = s.message, s.target, s.towards, s.urgent
    made_start, made, mirror_start, mirror = a.made_start, a.made, a.mirror_start, a.mirror
    reader_start, reader, producer_start, producer = a.reader_start, a.reader, a.producer_start, a.producer
    nbytes, tensors, stated_s = a.message_bytes, a.message_tensors, a.message_stated_s
    latency_s, per_byte_s, leaves, arrives = a.latency_s, a.per_byte_s, a.leave, a.arrive
    slack = limit_s * (1 + 1e-12)  # sums of times in another order may differ in their last digits
    for r in range(len(load_s)):
        if load_s[r] > slack:
            return np.inf
    for d in range(devices):
        urgent_of[d] = np.inf
    now, last = 0.0, 0.0
    events, done, dirty, begun = ZERO, 0, 0, 0
    tasks = operators
    while True:
        for i in range(ready):
            task = waking[i]
            r = resource[task]
            if r == NONE:
                start_s[task] = now
                end_s[task] += now
                if not end_s[task] <= limit_s or (task < operators and now + tail_s[task] > slack):
                    return np.inf
                if task < operators:
                    sequence[task] = begun
                    begun += 1
                push_event(until, queue, events, end_s[task], task)
                events += 1
            else:
                push(keys, queued, r * most, waits_for[r], priority[task], task, code)
                waits_for[r] += 1
                if not is_dirty[r]:
                    is_dirty[r] = True
                    touched[dirty] = r
                    dirty += 1
        ready = ZERO
        for i in range(dirty):
            r = touched[i]
            is_dirty[r] = False
            if not is_busy[r] and waits_for[r] > 0:
                task = pop(keys, queued, r * most, waits_for[r], code)
                waits_for[r] -= 1
                is_busy[r] = True
                seconds = end_s[task]
                start_s[task] = now
                end_s[task] = now + seconds
                if not end_s[task] <= limit_s:
                    return np.inf
                if task < operators:
                    if now + tail_s[task] > slack or now + load_s[r] > slack:
                        return np.inf
                    load_s[r] -= seconds
                    sequence[task] = begun
                    begun += 1
                push_event(until, queue, events, end_s[task], task)
                events += 1
        dirty = 0
        if events == 0:
            break
        now = until[0]
        while events > 0 and until[0] == now:
            task = pop_event(until, queue, events)
            events -= 1
            last = now
            r = resource[task]
            if r != NONE:
                is_busy[r] = False
                if not is_dirty[r]:
                    is_dirty[r] = True
                    touched[dirty] = r
                    dirty += 1
            here = device[task]
            if task >= operators:
                m = message[task]
                if destination[task] != here:
                    ready = _deliver(
                        m, here, destination[task], ready, device, waiting, waking, reader_start, reader,
                        producer_start, producer,
                    )  # fmt: skip
                    continue
                arrival = half[task]
                while arrival != NONE:
                    following = half[arrival]
                    if resource[arrival] == NONE:  # a CPU receives for nothing
                        start_s[arrival] = now
                        end_s[arrival] = now
                        ready = _deliver(
                            m, here, destination[arrival], ready, device, waiting, waking, reader_start, reader,
                            producer_start, producer,
                        )  # fmt: skip
                    else:
                        waking[ready] = arrival
                        ready += 1
                    arrival = following
                continue
            done += 1
            following = follow[task]
            if following != NONE and r != NONE:
                waiting[following] -= 1
                if waiting[following] == 0:
                    waking[ready] = following
                    ready += 1
            for e in range(mirror_start[task], mirror_start[task + 1]):
                target = mirror[e]
                waiting[target] -= 1
                if waiting[target] == 0:
                    waking[ready] = target
                    ready += 1
            for e in range(made_start[task], made_start[task + 1]):
                m = made[e]
                away = 0
                for f in range(reader_start[m], reader_start[m + 1]):
                    target = reader[f]
                    dst = device[target]
                    if dst == here:
                        waiting[target] -= 1
                        if waiting[target] == 0:
                            waking[ready] = target
                            ready += 1
                    else:
                        if urgent_of[dst] == np.inf:
                            towards[away] = dst
                            away += 1
                        urgent_of[dst] = min(urgent_of[dst], rank[target])
                if away == 0:
                    continue
                complete = True
                if producer_start[m + 1] - producer_start[m] > 1:
                    missing[m * devices + here] -= 1
                    complete = missing[m * devices + here] == 0
                departure = NONE
                slowest = 0.0
                for f in range(away):
                    dst = towards[f]
                    urgency = urgent_of[dst]
                    urgent_of[dst] = np.inf
                    if not complete:
                        continue
                    # An order constraint has nothing to move; between CPUs nothing is paid.
                    seconds = 0.0
                    if tensors[m] != 0:
                        seconds = tensors[m] * latency_s[here, dst] + nbytes[m] * per_byte_s[here, dst] + stated_s[m]
                        slowest = max(slowest, seconds)
                    if tensors[m] == 0 or (arrives[here, dst] == NONE and leaves[here] == NONE):
                        ready = _deliver(
                            m, here, dst, ready, device, waiting, waking, reader_start, reader, producer_start,
                            producer,
                        )  # fmt: skip
                        continue
                    device[tasks] = here
                    message[tasks] = m
                    destination[tasks] = dst
                    priority[tasks] = urgency
                    code[tasks] = ARRIVAL * (np.int64(1) << 48) + (m * devices + here) * devices + dst
                    end_s[tasks] = seconds  # its duration, until it starts
                    resource[tasks] = arrives[here, dst]
                    if leaves[here] == NONE:
                        half[tasks] = NONE
                        waking[ready] = tasks
                        ready += 1
                    else:
                        half[tasks] = departure  # a chain of the arrivals that wait for one departure
                        departure = tasks
                    tasks += 1
                if departure != NONE:
                    latest = -np.inf
                    for f in range(producer_start[m], producer_start[m + 1]):
                        if device[producer[f]] == here:
                            latest = max(latest, rank[producer[f]])
                    device[tasks] = here
                    message[tasks] = m
                    destination[tasks] = here
                    priority[tasks] = latest
                    code[tasks] = DEPARTURE * (np.int64(1) << 48) + (m * devices + here) * devices + here
                    end_s[tasks] = slowest
                    resource[tasks] = leaves[here]
                    half[tasks] = departure
                    waking[ready] = tasks
                    ready += 1
                    tasks += 1
    s.counts[0] = tasks
    return last if done == operators else np.inf
