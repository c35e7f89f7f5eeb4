"""Transfers, and which task waits for which, on plain arrays.

Room is made for the most tasks and waits that there can be; what is written down is cut out of it. What is called
for every transfer is inlined: a call counts references to each array that it is given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.evaluation.routes_kernel import through_host
from solvers.evaluation.tasks import SYNC, Bools, Bundles, F, Floats, Ints, Rows, Sends, Tasks, U, Units

BLOCKING, LANE, DUPLEX, LINKS = range(4)
"""How transfers and compute share a device: positions in `problem.Transfers`."""

LEAST_SAMPLES = 1e-9
"""Less than this is rounding, not a share of a micro-batch."""

TASKS, EDGES, READERS, SENDERS, SENDS, MISSING = range(6)
"""What ``Sink.counts`` counts; MISSING: where a link is missing, 1 + src * devices + dst, else 0."""

RESOURCE, DEVICE, TO_DEVICE, UNIT, MICRO_BATCH, STAGE, KIND, MAKER, LATENCIES, SEND = range(10)
"""Rows of ``Sink.whole``."""
SECONDS, PRIORITY, NBYTES = range(3)
"""Rows of ``Sink.real``."""


class Wires(NamedTuple):
    """What transfers take: see `columns.ClusterColumns`. mode: BLOCKING ... LINKS. stated: the workload states
    seconds."""

    mode: int
    stated: bool
    wire: Ints
    latency_s: Floats
    bandwidth: Floats
    is_cpu: Bools


class Cargo(NamedTuple):
    """What a bundle carries: bytes fixed and per sample, stated seconds per sample, latencies paid."""

    fixed: float
    per_sample: float
    stated_s: float
    tensors: int


class Sink(NamedTuple):
    """Where tasks are written: few arrays with room for all that may come."""

    counts: Ints
    """how many there are of what TASKS ... MISSING name"""
    whole: Ints
    """[10, tasks] columns of `Tasks`, RESOURCE ... SEND"""
    real: Floats
    """[3, tasks] columns of `Tasks`, SECONDS ... NBYTES"""
    waits: Ints
    """[2, edges] a task, and one that waits for it"""
    readers: Ints
    """[2, readers] a transfer, and a task that reads what it brings"""
    senders: Ints
    """[2, senders] a send, and a task that makes what is sent"""
    held: Floats
    """[2, sends] the sender, and the bytes that it keeps"""


@njit(cache=True)
def _sink(rows: Rows, seconds: Floats, n: Ints, units: Units) -> Sink:
    """Room for n[what] of what TASKS ... SENDS name, with the compute rows in it."""
    compute, tasks = len(rows.unit), n[TASKS]
    count = np.zeros(6, np.int64)
    count[TASKS] = compute
    whole, real = np.full((10, tasks), -1, np.int64), np.zeros((3, tasks))
    whole[LATENCIES, :] = 0
    unit, position, device, micro_batch = rows.unit, rows.position, rows.device, rows.micro_batch
    stage, kind = units.stage, units.kind
    for r in range(compute):
        u = unit[r]
        real[SECONDS, r], real[PRIORITY, r] = seconds[r], position[r]
        whole[RESOURCE, r] = whole[DEVICE, r] = device[r]
        whole[UNIT, r], whole[MICRO_BATCH, r] = u, micro_batch[r]
        whole[STAGE, r], whole[KIND, r] = stage[u], kind[u]
    return Sink(
        count, whole, real, np.empty((2, n[EDGES]), np.int64), np.empty((2, n[READERS]), np.int64),
        np.empty((2, n[SENDERS]), np.int64), np.zeros((2, n[SENDS])),
    )  # fmt: skip


@njit(cache=True)
def _most(units: Units, rows: Rows, pairs: Ints, bundles: Bundles, gradient: Floats, stage_group: Ints) -> Ints:
    """Bounds on what TASKS ... SENDS count.

    Replicas and micro-batches cut a mini-batch into intervals: a + b of them cross in less than a + b places.
    """
    n = np.zeros(6, np.int64)
    n[TASKS] = n[EDGES] = len(rows.unit)
    group_start, group, place, count = units.group_start, units.group, units.place, units.micro_batches
    for e in range(len(pairs)):
        n[EDGES] += (count[pairs[e, 0]] + count[pairs[e, 1]]) * _replicas(units, pairs[e, 0])
    target_start, target, source_start, source = (
        bundles.target_start, bundles.target, bundles.source_start, bundles.source,
    )  # fmt: skip
    for b in range(len(bundles.tensors)):
        makers, origin = source_start[b + 1] - source_start[b], source[source_start[b]]
        width = group_start[group[origin] + 1] - group_start[group[origin]]
        shares = count[origin] * width
        n[SENDS] += shares
        n[SENDERS] += shares * makers
        n[TASKS] += shares
        n[EDGES] += shares * makers
        t = target_start[b]
        while t < target_start[b + 1]:
            unit, upto = target[t], t + 1
            while upto < target_start[b + 1] and place[target[upto]] == place[unit]:
                upto += 1
            others = group_start[group[unit] + 1] - group_start[group[unit]]
            alike = count[origin] == count[unit] and width == others
            crossings = shares if alike else shares + count[unit] * others
            readers = upto - t
            n[TASKS] += crossings
            n[READERS] += crossings * readers
            n[EDGES] += crossings * max(makers * readers, makers + readers)
            t = upto
    for s in range(len(gradient)):
        replicas = group_start[stage_group[s] + 1] - group_start[stage_group[s]]
        if gradient[s] > 0:
            n[TASKS] += replicas
            for u in range(len(units.stage)):
                if units.stage[u] == s:
                    n[EDGES] += replicas * (units.slot[u + 1] - units.slot[u])
    return n


@njit(cache=True, inline="always")
def _pair(pairs: Ints, count: Ints, what: int, first: int, second: int) -> None:
    """One more row of ``pairs``."""
    at = count[what]
    pairs[0, at], pairs[1, at] = first, second
    count[what] = at + 1


@njit(cache=True, inline="always")
def _add(
    sink: Sink, seconds: float, resource: int, priority: float, device: int, to_device: int, maker: int,
    latencies: int, nbytes: float,
) -> int:  # fmt: skip
    """A transfer of the send that is being written; its number."""
    at = sink.counts[TASKS]
    sink.counts[TASKS] = at + 1
    whole, real = sink.whole, sink.real
    real[SECONDS, at], real[PRIORITY, at], real[NBYTES, at] = seconds, priority, nbytes
    whole[RESOURCE, at], whole[DEVICE, at], whole[TO_DEVICE, at] = resource, device, to_device
    whole[MAKER, at], whole[LATENCIES, at] = maker, latencies
    if maker >= 0:
        whole[SEND, at] = sink.counts[SENDS]
        whole[STAGE, at], whole[KIND, at] = whole[STAGE, maker], whole[KIND, maker]
        whole[MICRO_BATCH, at] = whole[MICRO_BATCH, maker]
    return at


@njit(cache=True, inline="always")
def _seconds(cargo: Cargo, samples: float, src: int, dst: int, wires: Wires, count: Ints) -> float:
    """Seconds to move a bundle between devices; between a device and its host as slow as the slowest way out."""
    if wires.stated:
        return float(cargo.stated_s * samples)
    if cargo.tensors == 0:
        return 0.0
    nbytes = cargo.fixed + cargo.per_sample * samples
    if src == dst:
        slowest = 0.0
        for way in range(len(wires.is_cpu)):
            if wires.bandwidth[src, way] > 0:
                slowest = max(slowest, cargo.tensors * wires.latency_s[src, way] + nbytes / wires.bandwidth[src, way])
        return slowest
    if wires.bandwidth[src, dst] <= 0:
        if count[MISSING] == 0:
            count[MISSING] = 1 + src * len(wires.is_cpu) + dst
        return 0.0
    return float(cargo.tensors * wires.latency_s[src, dst] + nbytes / wires.bandwidth[src, dst])


@njit(cache=True)
def _chain(sink: Sink, rows: Rows) -> None:
    """On a device that takes one task at a time each waits for the one before."""
    waits, count, device, ordered = sink.waits, sink.counts, rows.device, rows.ordered
    for r in range(1, len(device)):
        if device[r] == device[r - 1] and ordered[device[r]]:
            _pair(waits, count, EDGES, r - 1, r)


@njit(cache=True, inline="always")
def _overlap(size: int, other: int, i: int) -> tuple[int, int]:
    """Of micro-batches of ``other`` samples those, low:high, that share some with micro-batch ``i`` of ``size``."""
    return i * size // other, -(-((i + 1) * size) // other)


@njit(cache=True)
def _wait_here(sink: Sink, units: Units, rows: Rows, pairs: Ints) -> None:
    """Of each pair of units on the same devices the second waits for the first, where they share samples.

    What the order of a device says anyway is not said again.
    """
    waits, count, of_slot, device, ordered = sink.waits, sink.counts, rows.of_slot, rows.device, rows.ordered
    slot, samples = units.slot, units.samples
    for e in range(len(pairs)):
        a, b = pairs[e, 0], pairs[e, 1]
        replicas = _replicas(units, a)
        for i in range(units.micro_batches[a]):
            low, high = _overlap(samples[a], samples[b], i)
            for j in range(low, high):
                for q in range(replicas):
                    before, after = of_slot[slot[a] + i * replicas + q], of_slot[slot[b] + j * replicas + q]
                    if before > after or not ordered[device[before]]:
                        _pair(waits, count, EDGES, before, after)


@njit(cache=True, inline="always")
def _replicas(units: Units, u: int) -> int:
    return int(units.group_start[units.group[u] + 1] - units.group_start[units.group[u]])


@njit(cache=True)
def _farthest(units: Units, bundles: Bundles, b: int, cargo: Cargo, wires: Wires, count: Ints) -> Floats:
    """Seconds that the sender's half of a transfer takes, [replicas]: as long as to the slowest of its receivers."""
    origin = bundles.source[bundles.source_start[b]]
    replicas = _replicas(units, origin)
    share = units.samples[origin] / replicas
    seconds = np.zeros(replicas)
    for p in range(replicas):
        src = units.group_device[units.group_start[units.group[origin]] + p]
        for e in range(bundles.target_start[b], bundles.target_start[b + 1]):
            theirs = units.group[bundles.target[e]]
            for q in range(units.group_start[theirs], units.group_start[theirs + 1]):
                seconds[p] = max(seconds[p], _seconds(cargo, share, src, units.group_device[q], wires, count))
    return seconds


@njit(cache=True)
def _leave(
    sink: Sink, makers: Ints, position: Ints, call: bool, src: int, seconds: float, cargo: Cargo, share: float,
    wires: Wires,
) -> int:  # fmt: skip
    """The sender's half of a transfer under BLOCKING, LANE and DUPLEX; -1 if it costs nothing."""
    if wires.is_cpu[src]:
        return -1
    if call and wires.mode == BLOCKING:  # every call leaves its own outputs
        sink.real[SECONDS, makers[0]] += seconds
        return -1
    latest = -np.inf
    for maker in makers:
        latest = max(latest, float(position[maker]))
    resource = src if wires.mode == BLOCKING else src + len(wires.is_cpu)
    latencies = 0 if wires.stated else cargo.tensors
    nbytes = cargo.fixed + cargo.per_sample * share
    task = _add(sink, seconds, resource, latest + 0.25, src, src, int(makers[-1]), latencies, nbytes)
    for maker in makers:
        _pair(sink.waits, sink.counts, EDGES, maker, task)
    return task


@njit(cache=True, inline="always")
def _feed(sink: Sink, makers: Ints, departure: int, readers: Ints) -> None:
    """Those that read a message wait for its sender's half, or for those that make it."""
    for reader in readers:
        if departure >= 0:
            _pair(sink.waits, sink.counts, EDGES, departure, reader)
            continue
        for maker in makers:
            _pair(sink.waits, sink.counts, EDGES, maker, reader)


@njit(cache=True, inline="always")
def _arrive(
    sink: Sink, makers: Ints, departure: int, readers: Ints, position: Ints, call: bool, src: int, dst: int,
    cargo: Cargo, samples: float, several: int, wires: Wires,
) -> bool:  # fmt: skip
    """The receiver's half of a transfer, or all of it under LINKS; whether it is a task. call: whether readers are;
    several: how many such the receiver gets at the same time."""
    seconds = _seconds(cargo, samples, src, dst, wires, sink.counts)
    free = wires.mode != LINKS and wires.is_cpu[dst]
    folded = wires.mode == BLOCKING and call and not free
    if folded:  # every call fetches its own inputs
        for reader in readers:
            sink.real[SECONDS, reader] += seconds
    if folded or free:
        _feed(sink, makers, departure, readers)
        return False
    first = readers[0]
    for reader in readers:
        if position[reader] < position[first]:
            first = reader
    resource, devices = dst, len(wires.is_cpu)
    if wires.mode == LINKS:
        resource = 3 * devices + wires.wire[src, dst]
    elif wires.mode == LANE:
        resource += devices
    elif wires.mode == DUPLEX:
        resource += 2 * devices
    latencies = 0 if wires.stated else cargo.tensors
    nbytes = several * (cargo.fixed + cargo.per_sample * samples)
    task = _add(sink, seconds, resource, position[first] - 0.25, src, dst, int(makers[-1]), latencies, nbytes)
    if departure >= 0:
        _pair(sink.waits, sink.counts, EDGES, departure, task)
    else:
        for maker in makers:
            _pair(sink.waits, sink.counts, EDGES, maker, task)
    for reader in readers:
        _pair(sink.waits, sink.counts, EDGES, task, reader)
        _pair(sink.readers, sink.counts, READERS, task, reader)
    return True


@njit(cache=True)
def _send(sink: Sink, units: Units, rows: Rows, bundles: Bundles, b: int, wires: Wires) -> None:
    """The tasks that carry one bundle from one place to all others, every micro-batch."""
    source = bundles.source[bundles.source_start[b] : bundles.source_start[b + 1]]
    low, high = bundles.target_start[b], bundles.target_start[b + 1]
    cargo = Cargo(bundles.nbytes[b, 0], bundles.nbytes[b, 1], bundles.stated_s[b], bundles.tensors[b])
    origin = source[0]
    size, call = units.samples[origin], units.call[origin]
    first_device = units.group_start[units.group[origin]]
    replicas = units.group_start[units.group[origin] + 1] - first_device
    shares = units.shares[units.group[origin]]
    share = size / shares
    free, blocking = cargo.tensors == 0, wires.mode == BLOCKING
    halves = wires.mode != LINKS and not free
    farthest = _farthest(units, bundles, b, cargo, wires, sink.counts) if halves else np.zeros(0)
    target, slot, samples_of, group_device = bundles.target, units.slot, units.samples, units.group_device
    place, group, group_start, call_of = units.place, units.group, units.group_start, units.call
    of_slot, position, count, held, senders = rows.of_slot, rows.position, sink.counts, sink.held, sink.senders
    makers, readers = np.empty(len(source), np.int64), np.empty(high - low, np.int64)
    for i in range(units.micro_batches[origin]):
        for p in range(replicas):
            src = group_device[first_device + p]
            begin = i * size + p * share
            for e in range(len(source)):
                makers[e] = of_slot[slot[source[e]] + i * replicas + p]
            departure, carried = -1, False
            if halves:
                departure = _leave(sink, makers, position, call, src, farthest[p], cargo, share, wires)
                carried = departure >= 0
            t = low
            while t < high:
                unit, upto = target[t], t + 1
                while upto < high and place[target[upto]] == place[unit]:
                    upto += 1
                theirs, other = group_start[group[unit]], samples_of[unit]
                others = group_start[group[unit] + 1] - theirs
                part = other / others
                stands = replicas < shares or others < units.shares[group[unit]]
                hosted = blocking and through_host(units, origin, unit, True)
                j_low, j_high = _overlap(size, other, i)
                for j in range(j_low, j_high):
                    q_low, q_high = 0, 1
                    if others > 1:
                        q_low = max(0, int((begin - j * other) / part) - 1)
                        q_high = min(others, int((begin + share - j * other) / part) + 2)
                    for q in range(q_low, q_high):
                        samples, several = share, 1
                        if stands:
                            samples = size / max(shares, units.shares[group[unit]])
                            several = max(1, shares // units.shares[group[unit]])
                        else:
                            start = j * other + q * part
                            samples = min(begin + share, start + part) - max(begin, start)
                            if samples <= LEAST_SAMPLES:
                                continue
                        dst = group_device[theirs + q]
                        for e in range(t, upto):
                            readers[e - t] = of_slot[slot[target[e]] + j * others + q]
                        reading = readers[: upto - t]
                        if free or (dst == src and not hosted):
                            _feed(sink, makers, -1, reading)
                        elif _arrive(
                            sink, makers, departure, reading, position, call_of[unit], src, dst, cargo, samples,
                            several, wires,
                        ):  # fmt: skip
                            carried = True
                t = upto
            if carried:  # the sender keeps it until the last of these transfers has ended
                held[0, count[SENDS]], held[1, count[SENDS]] = src, cargo.fixed + cargo.per_sample * share
                for maker in makers:
                    _pair(senders, count, SENDERS, count[SENDS], maker)
                count[SENDS] += 1


@njit(cache=True)
def _last_of_stage(units: Units, rows: Rows, s: int, row: int) -> bool:
    """Whether no later task on the device of a backward of stage ``s`` is one too; True if tasks are in no order."""
    if not rows.ordered[rows.device[row]]:
        return True
    r = row + 1
    while r < len(rows.unit) and rows.device[r] == rows.device[row]:
        u = rows.unit[r]
        if units.stage[u] == s and units.kind[u] != F and units.kind[u] != U:
            return False
        r += 1
    return True


@njit(cache=True)
def _synchronise(sink: Sink, units: Units, rows: Rows, gradient: Floats, stage_group: Ints, wires: Wires) -> None:
    """Ring all-reduce of the gradients of replicated stages: 2(r-1)/r of the bytes per link."""
    devices = len(wires.is_cpu)
    for s in range(len(gradient)):
        begin, end = units.group_start[stage_group[s]], units.group_start[stage_group[s] + 1]
        replicas = units.shares[stage_group[s]]
        backwards, updates = np.empty(0, np.int64), np.empty(0, np.int64)
        for u in range(len(units.stage) if replicas > 1 and gradient[s] > 0 else 0):
            mine = rows.of_slot[units.slot[u] : units.slot[u + 1]]
            if units.stage[u] == s and units.kind[u] == U:
                updates = np.append(updates, mine)
            elif units.stage[u] == s and units.kind[u] != F:
                last = np.array([row for row in mine if _last_of_stage(units, rows, s, row)], np.int64)
                backwards = np.append(backwards, last)
        if len(backwards) == 0:
            continue
        for q in range(end - begin):
            src, dst = units.group_device[begin + q], units.group_device[begin + (q + 1) % (end - begin)]
            moved = 2 * (replicas - 1) / replicas * gradient[s]
            seconds = 0.0
            if wires.bandwidth[src, dst] > 0:
                seconds = 2 * (replicas - 1) * wires.latency_s[src, dst] + moved / wires.bandwidth[src, dst]
            elif sink.counts[MISSING] == 0:
                sink.counts[MISSING] = 1 + src * devices + dst
            resource = 3 * devices + wires.wire[src, dst]
            task = _add(sink, seconds, resource, 0.0, src, dst, -1, 2 * (replicas - 1), moved)
            sink.whole[STAGE, task], sink.whole[KIND, task], sink.whole[MICRO_BATCH, task] = s, SYNC, 0
            for row in backwards:
                _pair(sink.waits, sink.counts, EDGES, row, task)
            for row in updates:
                _pair(sink.waits, sink.counts, EDGES, task, row)


@njit(cache=True)
def _fill(
    sink: Sink, units: Units, rows: Rows, pairs: Ints, bundles: Bundles, wires: Wires, gradient: Floats,
    stage_group: Ints,
) -> None:  # fmt: skip
    """All transfers and waits."""
    _chain(sink, rows)
    _wait_here(sink, units, rows, pairs)
    for b in range(len(bundles.tensors)):
        _send(sink, units, rows, bundles, int(b), wires)
    _synchronise(sink, units, rows, gradient, stage_group, wires)


@njit(cache=True)
def _as_rows(keys: Ints, items: Ints, count: int) -> tuple[Ints, Ints]:
    """Pairs (key, item) as rows by key, items in the order given: (start, items)."""
    start = np.zeros(count + 1, np.int64)
    for e in range(len(keys)):
        start[keys[e] + 1] += 1
    for k in range(count):
        start[k + 1] += start[k]
    at, sorted_items = start[:-1].copy(), np.empty(len(keys), np.int64)
    for e in range(len(keys)):
        sorted_items[at[keys[e]]] = items[e]
        at[keys[e]] += 1
    return start, sorted_items


@njit(cache=True)
def tasks_of(
    units: Units, rows: Rows, seconds: Floats, pairs: Ints, bundles: Bundles, wires: Wires, gradient: Floats,
    stage_group: Ints,
) -> tuple[int, Tasks, Sends]:  # fmt: skip
    """(1 + src * devices + dst of a link that is missing, or 0; the tasks; the sends).

    seconds: of compute rows. pairs: see `_wait_here`. gradient: bytes that the replicas of each stage add up, 0
    for none; stage_group: the devices of each; [stages].
    """
    sink = _sink(rows, seconds, _most(units, rows, pairs, bundles, gradient, stage_group), units)
    _fill(sink, units, rows, pairs, bundles, wires, gradient, stage_group)
    n = sink.counts
    tasks, sends, edges = n[TASKS], n[SENDS], n[EDGES]
    after_start, after = _as_rows(sink.waits[0, :edges], sink.waits[1, :edges], tasks)
    reader_start, reader = _as_rows(sink.readers[0, : n[READERS]], sink.readers[1, : n[READERS]], tasks)
    waits = np.zeros(tasks, np.int64)
    for task in after:
        waits[task] += 1
    whole, real = sink.whole, sink.real
    transfer_start, transfer = np.zeros(sends + 1, np.int64), np.empty(tasks - len(rows.unit), np.int64)
    carried = 0  # the transfers of a send follow one another
    for task in range(len(rows.unit), tasks):
        if whole[SEND, task] >= 0:
            transfer[carried] = task
            carried += 1
            transfer_start[whole[SEND, task] + 1] = carried
    maker_start, maker = _as_rows(sink.senders[0, : n[SENDERS]], sink.senders[1, : n[SENDERS]], sends)
    found = Tasks(
        real[SECONDS, :tasks], whole[RESOURCE, :tasks], real[PRIORITY, :tasks], whole[DEVICE, :tasks],
        whole[TO_DEVICE, :tasks], whole[UNIT, :tasks], whole[MICRO_BATCH, :tasks], whole[STAGE, :tasks],
        whole[KIND, :tasks], whole[MAKER, :tasks], whole[LATENCIES, :tasks], real[NBYTES, :tasks], reader_start,
        reader, after_start, after, waits,
    )  # fmt: skip
    told = Sends(
        sink.held[0, :sends].astype(np.int64), sink.held[1, :sends], maker_start, maker, transfer_start,
        transfer[:carried],
    )  # fmt: skip
    return int(n[MISSING]), found, told
