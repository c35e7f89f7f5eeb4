"""Simulate one unsplit pass of operators for a placement, by priorities or in a fixed order, on plain arrays.

The same rules as `solvers.lowering` and `kernels.list_schedule`, told for plans in which every operator is a
task of its own: a message leaves a device when all that make it there are done, once for every other device
that reads it; links, lanes and devices take the most urgent ready task and never idle while there is one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

Heap = tuple[Floats, Ints, Ints, Ints, Ints]
"""priority, code, child, sibling, pairs of a `PassState`."""

NONE = -1
ARRIVAL, OPERATOR, DEPARTURE = 0, 1, 2
"""Kinds of tasks; of equally urgent ones the lower kind goes first."""
UPDATE = 3
"""The number of the update among the phases."""


class PassArrays(NamedTuple):
    """What does not hang on the plan. Seconds and bytes; CSR rows are ``x[x_start[i] : x_start[i + 1]]``.

    seconds: [operators, devices]. group_of: the group of every operator. waits: producers of the messages that
    an operator reads, plus one for a mirror. made: messages of every operator. mirror: mirrors of every
    operator. producer, reader: of every message. message_tensors: latencies of a message. latency_s,
    per_byte_s: [devices, devices], inf without a link. leave: the resource that sending occupies, per device,
    or NONE. arrive: [devices, devices] the resource that a transfer (its receiving half, if ``leave``)
    occupies, or NONE. one_by_one: whether a device runs one operator at a time. resources: how many there
    are, devices first. Memory: memory_bytes per device, static, saved and working bytes per operator,
    tensor_bytes of every message while it lies on the device that made it. home: the forward operator of
    every mirror, else itself. phase: its number. counts_buffers: whether transfers and what they hold count.
    """

    seconds: Floats
    group_of: Ints
    waits: Ints
    made_start: Ints
    made: Ints
    mirror_start: Ints
    mirror: Ints
    producer_start: Ints
    producer: Ints
    reader_start: Ints
    reader: Ints
    message_bytes: Floats
    message_tensors: Floats
    message_stated_s: Floats
    latency_s: Floats
    per_byte_s: Floats
    leave: Ints
    arrive: Ints
    one_by_one: Flags
    resources: np.int64
    memory_bytes: Floats
    static_bytes: Floats
    saved_bytes: Floats
    working_bytes: Floats
    tensor_bytes: Floats
    home: Ints
    phase: Ints
    counts_buffers: np.bool_


class PassState(NamedTuple):
    """Working arrays of one simulation, and its outcome; tasks are operators first, then transfers.

    device, start_s, end_s: of every task (of a transfer, the sender). message, target: of every transfer, NONE
    for operators; target is the sender itself for a sending half. sequence: when an operator was begun, as a
    count. counts: [0] how many tasks there are. The rest is scratch.
    """

    device: Ints
    start_s: Floats
    end_s: Floats
    message: Ints
    target: Ints
    sequence: Ints
    counts: Ints
    priority: Floats
    code: Ints
    resource: Ints
    waiting: Ints
    missing: Ints
    root: Ints
    child: Ints
    sibling: Ints
    running: Ints
    events: Ints
    ready: Ints
    dirty: Ints
    is_dirty: Flags
    pairs: Ints
    half: Ints


def state_for(arrays: PassArrays) -> PassState:
    """Fresh working arrays; one set serves any number of simulations, one after the other."""
    operators, devices = arrays.seconds.shape
    makers, readers = np.diff(arrays.producer_start), np.diff(arrays.reader_start)
    most = int((makers * (1 + np.minimum(readers, devices - 1))).sum()) if devices > 1 else 0
    tasks, messages, resources = operators + most, len(makers), int(arrays.resources)

    def ints(size: int) -> Ints:
        return np.zeros(size, np.int64)

    return PassState(
        device=ints(tasks), start_s=np.zeros(tasks), end_s=np.zeros(tasks), message=np.full(tasks, NONE, np.int64),
        target=np.full(tasks, NONE, np.int64), sequence=ints(operators), counts=ints(1), priority=np.zeros(tasks),
        code=ints(tasks), resource=ints(tasks), waiting=ints(operators), missing=ints(messages * devices),
        root=ints(resources), child=ints(tasks), sibling=ints(tasks), running=ints(resources), events=ints(tasks),
        ready=ints(tasks), dirty=ints(resources), is_dirty=np.zeros(resources, np.bool_), pairs=ints(tasks),
        half=ints(tasks),
    )  # fmt: skip


@njit(cache=True)
def transfer_s(a: PassArrays, m: int, src: int, dst: int) -> float:
    """Seconds of one transfer of message ``m`` between two devices."""
    if a.message_tensors[m] == 0:
        return 0.0
    seconds: float = a.message_tensors[m] * a.latency_s[src, dst] + a.message_bytes[m] * a.per_byte_s[src, dst]
    seconds += a.message_stated_s[m]
    return seconds


@njit(cache=True)
def _meld(heap: Heap, x: int, y: int) -> int:
    """Join two pairing heaps (Fredman et al. 1986); either may be NONE."""
    if x == NONE:
        return y
    if y == NONE:
        return x
    priority, code, child, sibling, _ = heap
    if priority[y] < priority[x] or (priority[y] == priority[x] and code[y] < code[x]):
        x, y = y, x
    sibling[y] = child[x]
    child[x] = y
    return x


@njit(cache=True)
def _pop(heap: Heap, root: int) -> int:
    """What remains of a pairing heap without its least task: children joined in pairs, then all."""
    priority, code, child, sibling, pairs = heap
    count = 0
    node = child[root]
    while node != NONE:
        following = sibling[node]
        sibling[node] = NONE
        other = following
        if other != NONE:
            following = sibling[other]
            sibling[other] = NONE
            if priority[other] < priority[node] or (priority[other] == priority[node] and code[other] < code[node]):
                node, other = other, node
            sibling[other] = child[node]
            child[node] = other
        pairs[count] = node
        count += 1
        node = following
    rest = NONE
    for i in range(count - 1, -1, -1):
        other = pairs[i]
        if rest != NONE:
            if priority[other] < priority[rest] or (priority[other] == priority[rest] and code[other] < code[rest]):
                rest, other = other, rest
            sibling[other] = child[rest]
            child[rest] = other
        else:
            rest = other
    return rest


@njit(cache=True)
def _push_event(events: Ints, size: int, task: int, end_s: Floats) -> None:
    child = size
    events[child] = task
    while child > 0:
        parent = (child - 1) >> 1
        if end_s[events[child]] < end_s[events[parent]]:
            events[child], events[parent] = events[parent], events[child]
            child = parent
        else:
            break


@njit(cache=True)
def _pop_event(events: Ints, size: int, end_s: Floats) -> int:
    top = events[0]
    size -= 1
    events[0] = events[size]
    node = 0
    while True:
        child = 2 * node + 1
        if child >= size:
            break
        if child + 1 < size and end_s[events[child + 1]] < end_s[events[child]]:
            child += 1
        if end_s[events[child]] < end_s[events[node]]:
            events[child], events[node] = events[node], events[child]
            node = child
        else:
            break
    return int(top)


@njit(cache=True)
def _new_transfer(a: PassArrays, s: PassState, m: int, src: int, dst: int, kind: int, urgency: float) -> int:
    devices = len(a.one_by_one)
    task = int(s.counts[0])
    s.counts[0] += 1
    s.device[task] = src
    s.message[task] = m
    s.target[task] = dst
    s.priority[task] = urgency
    s.code[task] = kind * (np.int64(1) << 48) + (m * devices + src) * devices + dst
    s.child[task] = NONE
    s.sibling[task] = NONE
    s.half[task] = NONE
    return task


@njit(cache=True)
def _send(a: PassArrays, s: PassState, m: int, src: int, rank: Floats, ready: int) -> int:
    """Make the transfers of a message that is complete on ``src``; the new number of ready tasks."""
    device, waking, resource, half, end_s, reader = s.device, s.ready, s.resource, s.half, s.end_s, a.reader
    low, high = a.reader_start[m], a.reader_start[m + 1]
    leave = a.leave[src]
    departure = NONE
    slowest = 0.0
    for e in range(low, high):
        dst = device[reader[e]]
        first = dst != src
        for f in range(low, e):
            if device[reader[f]] == dst:
                first = False
                break
        if not first:
            continue
        arrive = a.arrive[src, dst]
        if a.message_tensors[m] == 0:  # an order constraint, or nothing to move
            ready = _deliver(a, s, m, src, dst, ready)
            continue
        seconds = transfer_s(a, m, src, dst)
        slowest = max(slowest, seconds)
        if arrive == NONE and leave == NONE:  # between CPUs, where nothing is paid
            ready = _deliver(a, s, m, src, dst, ready)
            continue
        urgency = np.inf
        for f in range(e, high):
            if device[reader[f]] == dst:
                urgency = min(urgency, rank[reader[f]])
        task = _new_transfer(a, s, m, src, dst, ARRIVAL, urgency)
        end_s[task] = seconds  # its duration, until it starts
        resource[task] = arrive
        if leave == NONE:
            waking[ready] = task
            ready += 1
        else:
            half[task] = departure  # a chain of the arrivals that wait for one departure
            departure = task
    if departure != NONE:
        latest = -np.inf
        for e in range(a.producer_start[m], a.producer_start[m + 1]):
            if device[a.producer[e]] == src:
                latest = max(latest, rank[a.producer[e]])
        task = _new_transfer(a, s, m, src, src, DEPARTURE, latest)
        end_s[task] = slowest
        resource[task] = leave
        half[task] = departure
        waking[ready] = task
        ready += 1
    return ready


@njit(cache=True)
def _deliver(a: PassArrays, s: PassState, m: int, src: int, dst: int, ready: int) -> int:
    """A message from ``src`` is on ``dst``; the new number of ready tasks."""
    device, waiting, waking, reader, producer = s.device, s.waiting, s.ready, a.reader, a.producer
    carried = 0
    for e in range(a.producer_start[m], a.producer_start[m + 1]):
        carried += device[producer[e]] == src
    for e in range(a.reader_start[m], a.reader_start[m + 1]):
        target = reader[e]
        if device[target] == dst:
            waiting[target] -= carried
            if waiting[target] == 0:
                waking[ready] = target
                ready += 1
    return ready


@njit(cache=True)
def _arrived(a: PassArrays, s: PassState, task: int, ready: int) -> int:
    """What the end of a transfer sets free; the new number of ready tasks."""
    m, src, dst = s.message[task], s.device[task], s.target[task]
    if dst != src:
        return _deliver(a, s, m, src, dst, ready)
    arrival = s.half[task]
    while arrival != NONE:
        following = s.half[arrival]
        if s.resource[arrival] == NONE:  # a CPU receives for nothing
            s.start_s[arrival] = s.end_s[task]
            s.end_s[arrival] = s.end_s[task]
            ready = _deliver(a, s, m, src, s.target[arrival], ready)
        else:
            s.ready[ready] = arrival
            ready += 1
        arrival = following
    return ready


@njit(cache=True)
def _begin(a: PassArrays, s: PassState, place: Ints, rank: Floats, follow: Ints) -> int:
    """Reset the state for a placement; the number of tasks that are ready."""
    operators, devices = a.seconds.shape
    device, waiting, priority, code, child, sibling = s.device, s.waiting, s.priority, s.code, s.child, s.sibling
    start_s, end_s, resource, missing, waking = s.start_s, s.end_s, s.resource, s.missing, s.ready
    group_of, waits, seconds, one_by_one = a.group_of, a.waits, a.seconds, a.one_by_one
    producer_start, producer = a.producer_start, a.producer
    s.counts[0] = operators
    for r in range(a.resources):
        s.root[r] = NONE
        s.running[r] = NONE
        s.is_dirty[r] = False
    for i in range(operators):
        d = place[group_of[i]]
        device[i] = d
        waiting[i] = waits[i]
        priority[i] = rank[i]
        code[i] = OPERATOR * (np.int64(1) << 48) + i
        child[i] = NONE
        sibling[i] = NONE
        end_s[i] = seconds[i, d]  # its duration, until it starts
        start_s[i] = np.inf
        resource[i] = d if one_by_one[d] else NONE
    for i in range(operators):
        if follow[i] != NONE and one_by_one[device[i]]:
            waiting[follow[i]] += 1
    for m in range(len(producer_start) - 1):
        if producer_start[m + 1] - producer_start[m] > 1:
            for d in range(devices):
                missing[m * devices + d] = 0
            for e in range(producer_start[m], producer_start[m + 1]):
                missing[m * devices + device[producer[e]]] += 1
    ready = 0
    for i in range(operators):
        if waiting[i] == 0:
            waking[ready] = i
            ready += 1
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
    heap = (s.priority, s.code, s.child, s.sibling, s.pairs)
    root, running, resource, start_s, end_s = s.root, s.running, s.resource, s.start_s, s.end_s
    waking, queue, is_dirty, touched, sequence = s.ready, s.events, s.is_dirty, s.dirty, s.sequence
    device, waiting, missing, begun = s.device, s.waiting, s.missing, 0
    # Taken out of the tuple once: each access would count references.
    made_start, made, mirror_start, mirror = a.made_start, a.made, a.mirror_start, a.mirror
    reader_start, reader, producer_start = a.reader_start, a.reader, a.producer_start
    now = 0.0
    last = 0.0
    events = 0
    done = 0
    dirty = 0
    while True:
        for i in range(ready):
            task = waking[i]
            r = resource[task]
            if r == NONE:
                start_s[task] = now
                end_s[task] += now
                if not end_s[task] <= limit_s or (task < operators and now + tail_s[task] > limit_s):
                    return np.inf
                if task < operators:
                    sequence[task] = begun
                    begun += 1
                _push_event(queue, events, task, end_s)
                events += 1
            else:
                root[r] = _meld(heap, root[r], task)
                if not is_dirty[r]:
                    is_dirty[r] = True
                    touched[dirty] = r
                    dirty += 1
        ready = 0
        for i in range(dirty):
            r = touched[i]
            is_dirty[r] = False
            if running[r] == NONE and root[r] != NONE:
                task = root[r]
                root[r] = _pop(heap, task)
                heap[2][task] = NONE
                running[r] = task
                start_s[task] = now
                end_s[task] += now
                if not end_s[task] <= limit_s or (task < operators and now + tail_s[task] > limit_s):
                    return np.inf
                if task < operators:
                    sequence[task] = begun
                    begun += 1
                _push_event(queue, events, task, end_s)
                events += 1
        dirty = 0
        if events == 0:
            break
        now = end_s[queue[0]]
        while events > 0 and end_s[queue[0]] == now:
            task = _pop_event(queue, events, end_s)
            events -= 1
            done += task < operators
            last = now
            r = resource[task]
            if r != NONE:
                running[r] = NONE
                if not is_dirty[r]:
                    is_dirty[r] = True
                    touched[dirty] = r
                    dirty += 1
            if task >= operators:
                ready = _arrived(a, s, task, ready)
                continue
            here = device[task]
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
                away = False
                for f in range(reader_start[m], reader_start[m + 1]):
                    target = reader[f]
                    if device[target] == here:
                        waiting[target] -= 1
                        if waiting[target] == 0:
                            waking[ready] = target
                            ready += 1
                    else:
                        away = True
                if away:
                    if producer_start[m + 1] - producer_start[m] > 1:
                        missing[m * devices + here] -= 1
                        if missing[m * devices + here] > 0:
                            continue
                    ready = _send(a, s, m, here, rank, ready)
    return last if done == operators else np.inf
