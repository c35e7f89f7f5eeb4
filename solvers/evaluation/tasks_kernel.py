"""Transfers, and which task waits for which, on plain arrays.

Room is made for the most tasks and waits that there can be; what is written down is cut out of it. Nothing with
arrays is called for every transfer between devices: a call counts references to each array that it is given.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.evaluation.crossings_kernel import crossings_bound, crossings_of, same_place
from solvers.evaluation.routes_kernel import through_host
from solvers.evaluation.tasks import SYNC, Bundles, F, Rows, Sends, Tasks, U, Units
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit
from solvers.kernels.links_kernel import ALIKE, LinkTable, class_of, wire_of
from solvers.kernels.ring_kernel import ring_bytes, ring_s, ring_steps

BLOCKING, LANE, DUPLEX, LINKS = range(4)
"""How transfers and compute share a device: positions in `problem.Transfers`."""

TASKS, EDGES, READERS, SENDERS, SENDS, MISSING = range(6)
"""What ``Sink.counts`` counts; MISSING: where a link is missing, 1 + src * devices + dst, else 0."""

RESOURCE, DEVICE, TO_DEVICE, UNIT, MICRO_BATCH, STAGE, KIND, MAKER, LATENCIES, SEND = range(10)
"""Rows of ``Sink.whole``."""
SECONDS, PRIORITY, NBYTES = range(3)
"""Rows of ``Sink.real``."""


class Wires(NamedTuple):
    """What transfers take."""

    mode: int
    """BLOCKING ... LINKS"""
    stated: bool
    """whether the workload states seconds"""
    alike: bool
    """whether all links are as fast as each other, of class 1, each on a wire of its own"""
    links: LinkTable
    is_cpu: Bools
    """[devices]"""


class Rings(NamedTuple):
    """The all-reduces of gradients among the replicas of stages."""

    nbytes: Floats
    """[stages] B that the replicas of each add up, 0 for none"""
    group: Ints
    """[stages] the devices of each"""
    following: Ints
    """[stages] the device to which the last of these sends: the first of these, or of the next that do the same"""
    times: int
    """how many parts of a cluster do the same at once, of which the question has the first (`Repeats`)"""
    latency_s: float
    """of the link from a group to the next"""
    bandwidth: float
    """B/s of it; inf where that of the link to ``following`` counts"""
    by_node: bool
    """whether devices of a node send over one wire to the next group, else each has one of its own"""
    by_receiver: bool
    """whether there is one for each node, or each device, that receives"""


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
    whole, real = np.empty((10, tasks), np.int64), np.empty((3, tasks))
    unit, position, device, micro_batch = rows.unit, rows.position, rows.device, rows.micro_batch
    stage, kind = units.stage, units.kind
    for r in range(compute):
        u = unit[r]
        real[SECONDS, r], real[PRIORITY, r], real[NBYTES, r] = seconds[r], position[r], 0.0
        whole[RESOURCE, r] = whole[DEVICE, r] = device[r]
        whole[UNIT, r], whole[MICRO_BATCH, r] = u, micro_batch[r]
        whole[STAGE, r], whole[KIND, r] = stage[u], kind[u]
        whole[TO_DEVICE, r] = whole[MAKER, r] = whole[SEND, r] = -1
        whole[LATENCIES, r] = 0
    return Sink(
        count, whole, real, np.empty((2, n[EDGES]), np.int64), np.empty((2, n[READERS]), np.int64),
        np.empty((2, n[SENDERS]), np.int64), np.empty((2, n[SENDS])),
    )  # fmt: skip


@njit(cache=True)
def _most(units: Units, rows: Rows, pairs: Ints, bundles: Bundles, rings: Rings, halves: bool) -> Ints:
    """Bounds on what TASKS ... SENDS count. halves: whether transfers have a sender's half.

    Replicas and micro-batches cut a mini-batch into intervals: a + b of them cross in less than a + b places.
    """
    n = np.zeros(6, np.int64)
    n[TASKS] = n[EDGES] = len(rows.unit)
    group_start, count = units.group_start, units.micro_batches
    for e in range(len(pairs)):  # what the order does not imply
        a, b = pairs[e, 0], pairs[e, 1]
        n[EDGES] += (count[a] if count[a] == count[b] else count[a] + count[b]) * _replicas(units, a)
    for b in range(len(bundles.tensors)):
        makers, origin = bundles.source_start[b + 1] - bundles.source_start[b], bundles.source[bundles.source_start[b]]
        shares = count[origin] * _replicas(units, origin)
        n[SENDS] += shares
        n[SENDERS] += shares * makers
        n[TASKS] += shares * halves
        n[EDGES] += shares * makers * halves
        t = bundles.target_start[b]
        while t < bundles.target_start[b + 1]:
            end = same_place(units, bundles, t, bundles.target_start[b + 1])
            crossings, readers = crossings_bound(units, origin, bundles.target[t]), end - t
            n[TASKS] += crossings
            n[READERS] += crossings * readers
            n[EDGES] += crossings * max(makers * readers, makers + readers)
            t = end
    for s in range(len(rings.nbytes)):
        width = group_start[rings.group[s] + 1] - group_start[rings.group[s]]
        if rings.nbytes[s] > 0:
            n[TASKS] += width
            for u in range(len(units.stage)):
                if units.stage[u] == s:
                    n[EDGES] += width * (units.slot[u + 1] - units.slot[u])
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
    whole[MAKER, at], whole[LATENCIES, at], whole[UNIT, at], whole[SEND, at] = maker, latencies, -1, -1
    if maker >= 0:
        whole[SEND, at] = sink.counts[SENDS]
        whole[STAGE, at], whole[KIND, at] = whole[STAGE, maker], whole[KIND, maker]
        whole[MICRO_BATCH, at] = whole[MICRO_BATCH, maker]
    return int(at)


@njit(cache=True)
def _link(wires: Wires, src: int, dst: int) -> tuple[int, float, float]:
    """(number of the wire, s of latency, B/s) of the link between two devices."""
    link = ALIKE if wires.alike else class_of(wires.links, src, dst)
    wire = src * len(wires.is_cpu) + dst if wires.alike else wire_of(wires.links, link, src, dst)
    return wire, wires.links.latency_s[link], wires.links.bandwidth[link]


@njit(cache=True)
def _seconds(cargo: Cargo, samples: float, src: int, dst: int, wires: Wires, count: Ints) -> float:
    """Seconds to move a bundle between devices; between a device and its host as slow as the slowest way out."""
    if wires.stated:
        return float(cargo.stated_s * samples)
    if cargo.tensors == 0:
        return 0.0
    nbytes = cargo.fixed + cargo.per_sample * samples
    if src == dst:
        slowest, group = 0.0, wires.links.group[src]
        for way in range(-1, wires.links.between.shape[1]):  # of every class that leaves the device
            link = wires.links.within[group] if way < 0 else wires.links.between[group, way]
            if wires.links.bandwidth[link] > 0:
                slowest = max(slowest, _link_s(cargo.tensors, nbytes, wires.links, link))
        return slowest
    link = ALIKE if wires.alike else class_of(wires.links, src, dst)
    if wires.links.bandwidth[link] <= 0:
        if count[MISSING] == 0:
            count[MISSING] = 1 + src * len(wires.is_cpu) + dst
        return 0.0
    return _link_s(cargo.tensors, nbytes, wires.links, link)


@njit(cache=True)
def _link_s(latencies: float, nbytes: float, links: LinkTable, link: int) -> float:
    """Seconds on a link of a class."""
    return float(latencies * links.latency_s[link] + nbytes / links.bandwidth[link])


@njit(cache=True)
def _chain(sink: Sink, rows: Rows) -> None:
    """On a device that takes one task at a time each waits for the one before."""
    waits, count, device, ordered = sink.waits, sink.counts, rows.device, rows.ordered
    for r in range(1, len(device)):
        if device[r] == device[r - 1] and ordered[device[r]]:
            _pair(waits, count, EDGES, r - 1, r)


@njit(cache=True)
def _wait_here(sink: Sink, units: Units, rows: Rows, pairs: Ints) -> None:
    """Of each pair of units on the same devices the second waits for the first, where they share samples.

    What the order of a device says anyway is not said again.
    """
    waits, count, of_slot, device, ordered = sink.waits, sink.counts, rows.of_slot, rows.device, rows.ordered
    slot, samples, micro_batches = units.slot, units.samples, units.micro_batches
    for e in range(len(pairs)):
        a, b = pairs[e, 0], pairs[e, 1]
        replicas, size, other = _replicas(units, a), samples[a], samples[b]
        for i in range(micro_batches[a]):
            low, high = i, i + 1
            if other != size:  # the micro-batches that share samples with this one
                low, high = i * size // other, -(-((i + 1) * size) // other)
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
    share = units.samples[origin] / units.replicas[units.group[origin]]
    seconds = np.zeros(replicas)
    for p in range(replicas):
        src = units.group_device[units.group_start[units.group[origin]] + p]
        for e in range(bundles.target_start[b], bundles.target_start[b + 1]):
            group = units.group[bundles.target[e]]
            for q in range(units.group_start[group], units.group_start[group + 1]):
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


@njit(cache=True)
def _in_call(sink: Sink, units: Units, unit: int, readers: Ints, dst: int, seconds: float, wires: Wires) -> bool:
    """Whether what a unit reads comes without a task of its own, where transfers keep devices busy: CPUs pay nothing,
    and under BLOCKING every call fetches its own inputs."""
    if wires.is_cpu[dst]:
        return True
    if wires.mode == BLOCKING and units.call[unit]:
        for reader in readers:
            sink.real[SECONDS, reader] += seconds
        return True
    return False


@njit(cache=True)
def _resource_of(wires: Wires, src: int, dst: int) -> int:
    """What the receiver's half of a transfer occupies; all of it under LINKS."""
    devices = len(wires.is_cpu)
    if wires.mode == LINKS:
        return int(3 * devices + _link(wires, src, dst)[0])
    return dst + (devices if wires.mode == LANE else 2 * devices if wires.mode == DUPLEX else 0)


@njit(cache=True, error_model="numpy")
def _send(sink: Sink, units: Units, rows: Rows, bundles: Bundles, b: int, wires: Wires) -> None:
    """The tasks that carry one bundle from one place to all others, every micro-batch."""
    source = bundles.source[bundles.source_start[b] : bundles.source_start[b + 1]]
    fixed, per_sample, latencies = bundles.nbytes[b, 0], bundles.nbytes[b, 1], bundles.tensors[b]
    cargo = Cargo(fixed, per_sample, bundles.stated_s[b], latencies)
    origin, group = source[0], units.group[source[0]]
    call, first_device = units.call[origin], units.group_start[group]
    replicas = units.group_start[group + 1] - first_device
    share_samples = units.samples[origin] / units.replicas[group]
    links, free, blocking = wires.mode == LINKS, latencies == 0, wires.mode == BLOCKING
    halves = not links and not free
    farthest = _farthest(units, bundles, b, cargo, wires, sink.counts) if halves else np.zeros(0)
    table, stated, alike = wires.links, wires.stated, wires.alike
    devices = len(wires.is_cpu)
    paid = 0 if stated else latencies
    waits, reads, senders, held, whole, real, count = (
        sink.waits, sink.readers, sink.senders, sink.held, sink.whole, sink.real, sink.counts,
    )  # fmt: skip
    of_slot, position, slot, target, group_device = (
        rows.of_slot, rows.position, units.slot, bundles.target, units.group_device,
    )  # fmt: skip
    share_of, low_of, high_of, to_share, device_of, several_of, samples_of = crossings_of(units, bundles, b)
    makers, readers = np.empty(len(source), np.int64), np.empty(len(target), np.int64)
    crossing = 0
    for share in range(units.micro_batches[origin] * replicas):
        src = group_device[first_device + share % replicas]
        for e in range(len(source)):
            makers[e] = of_slot[slot[source[e]] + share]
        maker, departure = makers[-1], -1
        if halves:
            seconds = farthest[share % replicas]
            departure = _leave(sink, makers, position, call, src, seconds, cargo, share_samples, wires)
        carried = departure >= 0
        while crossing < len(share_of) and share_of[crossing] == share:
            low, high, dst, samples = low_of[crossing], high_of[crossing], device_of[crossing], samples_of[crossing]
            first = of_slot[slot[target[low]] + to_share[crossing]]
            for e in range(low, high):
                readers[e - low] = of_slot[slot[target[e]] + to_share[crossing]]
                if position[readers[e - low]] < position[first]:
                    first = readers[e - low]
            several = several_of[crossing]
            crossing += 1
            moves = not free and (dst != src or (blocking and through_host(units, origin, target[low], True)))
            seconds, nbytes = 0.0, fixed + per_sample * samples
            link = ALIKE if alike else class_of(table, src, dst)
            if moves and not stated and src != dst and table.bandwidth[link] > 0:
                seconds = latencies * table.latency_s[link] + nbytes / table.bandwidth[link]
            elif moves:
                seconds = _seconds(cargo, samples, src, dst, wires, count)
            away = moves
            if away and not links:
                moves = not _in_call(sink, units, target[low], readers[: high - low], dst, seconds, wires)
            edges = count[EDGES]
            task = count[TASKS]
            # The transfer, or what is read itself, waits for the sender's half, or for those that make it.
            for f in range(1 if moves else high - low):
                after = task if moves else readers[f]
                if away and departure >= 0:
                    waits[0, edges], waits[1, edges] = departure, after
                    edges += 1
                    continue
                for e in range(len(makers)):
                    waits[0, edges], waits[1, edges] = makers[e], after
                    edges += 1
            if moves:
                priority = position[first] - 0.25
                real[SECONDS, task], real[PRIORITY, task], real[NBYTES, task] = seconds, priority, nbytes * several
                if links:
                    wire = src * devices + dst if alike else wire_of(table, link, src, dst)
                    whole[RESOURCE, task] = 3 * devices + wire
                else:
                    whole[RESOURCE, task] = _resource_of(wires, src, dst)
                whole[DEVICE, task], whole[TO_DEVICE, task] = src, dst
                whole[UNIT, task], whole[SEND, task] = -1, count[SENDS]
                whole[MAKER, task], whole[LATENCIES, task] = maker, paid
                whole[STAGE, task], whole[KIND, task] = whole[STAGE, maker], whole[KIND, maker]
                whole[MICRO_BATCH, task] = whole[MICRO_BATCH, maker]
                count[TASKS] = task + 1
                n_read = count[READERS]
                for e in range(high - low):
                    waits[0, edges + e], waits[1, edges + e] = task, readers[e]
                    reads[0, n_read + e], reads[1, n_read + e] = task, readers[e]
                edges += high - low
                count[READERS] = n_read + high - low
                carried = True
            count[EDGES] = edges
        if carried:  # the sender keeps it until the last of these transfers has ended
            sends = count[SENDS]
            held[0, sends], held[1, sends] = src, fixed + per_sample * share_samples
            for e in range(len(makers)):
                _pair(senders, count, SENDERS, sends, makers[e])
            count[SENDS] = sends + 1


@njit(cache=True)
def _around_sums(units: Units, rows: Rows, s: int) -> tuple[Ints, Ints]:
    """(backwards, updates) of stage ``s``, rows: the tasks that sums of its gradients wait for, and those that wait for
    them. Of backwards that a device takes one after the other only the last counts."""
    stage, kind, slot, of_slot = units.stage, units.kind, units.slot, rows.of_slot
    device, ordered = rows.device, rows.ordered
    last = np.full(len(ordered), -1, np.int64)
    backwards, updates = np.empty(len(of_slot) + len(ordered), np.int64), np.empty(len(of_slot), np.int64)
    n = m = 0
    for u in range(len(stage)):
        for at in range(slot[u], slot[u + 1] if stage[u] == s and kind[u] != F else slot[u]):
            row = of_slot[at]
            if kind[u] == U:
                updates[m] = row
                m += 1
            elif ordered[device[row]]:
                last[device[row]] = max(last[device[row]], row)
            else:
                backwards[n] = row
                n += 1
    for row in last:
        if row >= 0:
            backwards[n] = row
            n += 1
    return backwards[:n], updates[:m]


@njit(cache=True)
def _onward(rings: Rings, wires: Wires, src: int, dst: int) -> int:
    """The number of the wire from a device to what ``dst`` is in the next group, beyond those of the cluster."""
    devices, head, tail = len(wires.is_cpu), src, dst if rings.by_receiver else 0
    if rings.by_node:
        head = 0 if wires.alike else wires.links.node[src]
        tail = 0 if wires.alike or not rings.by_receiver else wires.links.node[dst]
    return int((devices + head) * devices + tail)


@njit(cache=True)
def _synchronise(sink: Sink, units: Units, rows: Rows, rings: Rings, wires: Wires) -> None:
    """All-reduce of the gradients of replicated stages, around a ring."""
    devices, gradient = len(wires.is_cpu), rings.nbytes
    for s in range(len(gradient)):
        begin, end = units.group_start[rings.group[s]], units.group_start[rings.group[s] + 1]
        replicas = units.replicas[rings.group[s]] * rings.times
        if replicas == 1 or gradient[s] <= 0:
            continue
        backwards, updates = _around_sums(units, rows, int(s))
        if len(backwards) == 0:
            continue
        for at in range(begin, end):
            src, dst = units.group_device[at], rings.following[s] if at + 1 == end else units.group_device[at + 1]
            wire, latency_s, bandwidth = _link(wires, src, dst)
            if at + 1 == end and rings.bandwidth < np.inf:
                wire, latency_s, bandwidth = _onward(rings, wires, src, dst), rings.latency_s, rings.bandwidth
            moved = ring_bytes(replicas, gradient[s])
            seconds = 0.0
            if bandwidth > 0:
                seconds = ring_s(replicas, gradient[s], latency_s, bandwidth)
            elif sink.counts[MISSING] == 0:
                sink.counts[MISSING] = 1 + src * devices + dst
            task = _add(sink, seconds, 3 * devices + wire, 0.0, src, dst, -1, ring_steps(replicas), moved)
            sink.whole[STAGE, task], sink.whole[KIND, task], sink.whole[MICRO_BATCH, task] = s, SYNC, 0
            for row in backwards:
                _pair(sink.waits, sink.counts, EDGES, int(row), task)
            for row in updates:
                _pair(sink.waits, sink.counts, EDGES, task, int(row))


@njit(cache=True)
def _fill(sink: Sink, units: Units, rows: Rows, pairs: Ints, bundles: Bundles, wires: Wires, rings: Rings) -> None:
    """All transfers and waits."""
    _chain(sink, rows)
    _wait_here(sink, units, rows, pairs)
    for b in range(len(bundles.tensors)):
        _send(sink, units, rows, bundles, int(b), wires)
    _synchronise(sink, units, rows, rings, wires)


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
    units: Units, rows: Rows, seconds: Floats, pairs: Ints, bundles: Bundles, wires: Wires, rings: Rings
) -> tuple[int, Tasks, Sends]:
    """(1 + src * devices + dst of a link that is missing, or 0; the tasks; the sends).

    seconds: of compute rows. pairs: see `_wait_here`.
    """
    sink = _sink(rows, seconds, _most(units, rows, pairs, bundles, rings, wires.mode != LINKS), units)
    _fill(sink, units, rows, pairs, bundles, wires, rings)
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
    all_tasks = Tasks(
        real[SECONDS, :tasks], whole[RESOURCE, :tasks], real[PRIORITY, :tasks], whole[DEVICE, :tasks],
        whole[TO_DEVICE, :tasks], whole[UNIT, :tasks], whole[MICRO_BATCH, :tasks], whole[STAGE, :tasks],
        whole[KIND, :tasks], whole[MAKER, :tasks], whole[LATENCIES, :tasks], real[NBYTES, :tasks], reader_start,
        reader, after_start, after, waits,
    )  # fmt: skip
    all_sends = Sends(
        sink.held[0, :sends].astype(np.int64), sink.held[1, :sends], maker_start, maker, transfer_start,
        transfer[:carried],
    )  # fmt: skip
    return int(n[MISSING]), all_tasks, all_sends
