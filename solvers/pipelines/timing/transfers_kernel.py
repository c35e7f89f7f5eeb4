"""The transfers of a draft's iteration, and which tasks they wait for and feed, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.ring_kernel import ring_s
from solvers.pipelines.timing.bundles_kernel import Bundles
from solvers.pipelines.timing.stages_kernel import KINDS, B, F, I, U, W

Shorts = NDArray[np.int32]

LEAST_SAMPLES = 1e-9
"""Less than this is rounding, not a share of a micro-batch."""


class Places(NamedTuple):
    """The devices of stages. group: of every unit. replicas: how many share each micro-batch, [groups]. The devices
    of group g are device[first[g]:first[g] + width[g]]; width 1 where one stands for all of them."""

    group: Ints
    replicas: Ints
    first: Ints
    width: Ints
    device: Ints


class Wires(NamedTuple):
    """Links between devices: their wire, latency and bandwidth (0: no link), [devices, devices]; or, if all are
    alike and have wires of their own, one row and column."""

    wire: Ints
    latency_s: Floats
    bandwidth: Floats


class Units(NamedTuple):
    """exists, seconds, workspace bytes, samples and number of micro-batches of every unit."""

    exists: Bools
    seconds: Floats
    workspace: Floats
    size: Ints
    micro_batches: Ints


class Tasks(NamedTuple):
    """The tasks of every device in its order: task start[d] + i is the entry entry[d] + i of the orders. position:
    of micro-batch j of unit u in the order of its devices, at begin[u] + j."""

    start: Ints
    entry: Ints
    begin: Ints
    position: Shorts


class Transfers(NamedTuple):
    """Transfers, in the order in which they take turns if nothing else tells.

    lane, micro, turn, send, buffer: of every transfer its lane, the micro-batch of its readers, a number that is less
    the earlier its first reader is in its device's order, its send (-1: gradients of a stage's replicas) and
    the task whose end frees what it brought. Of lanes: wire (-1: nothing to move), device it leads to,
    seconds, bytes that arrive, the readers, bundles.targets[low:high] (of gradients: low is the stage).
    Send s is what a task, or several, send at once: transfers send_start[s]:send_start[s + 1], of which
    send_moves[s] move something, after send_waits[s] tasks; held: bytes kept until all of these are done. Of
    every task: its sends are entry_send[e] for e = sent_by[task], entry_next[e], ... until -1. ring_start: the
    transfers of gradients of every stage; ring_waits: the tasks they wait for. waiting: the transfers every
    task waits for, or tasks where nothing moves.
    """

    lane: Shorts
    micro: Shorts
    turn: Shorts
    send: Shorts
    buffer: Shorts
    wire: Shorts
    into: Shorts
    seconds: Floats
    nbytes: Floats
    low: Shorts
    high: Shorts
    send_start: Shorts
    send_waits: Shorts
    send_moves: Shorts
    send_device: Shorts
    held: Floats
    sent_by: Shorts
    entry_send: Shorts
    entry_next: Shorts
    ring_start: Shorts
    ring_waits: Shorts
    waiting: Shorts
    wires: int
    missing: bool


@njit(cache=True)
def tasks_of(units: Units, places: Places, order_start: Ints, order_unit: Ints, order_micro: Ints) -> Tasks:
    """The tasks of orders; see `orders_kernel.orders_of`. position is empty if they do not hold every unit."""
    n_units, groups, devices = len(units.exists), len(places.replicas), np.max(places.device) + 1
    begin = np.zeros(n_units + 1, np.int64)
    for u in range(n_units):
        begin[u + 1] = begin[u] + (units.micro_batches[u] if units.exists[u] else 0)
    position = np.full(begin[n_units] if begin[n_units] == order_start[groups] else 0, -1, np.int32)
    entry, count = np.zeros(devices, np.int64), np.zeros(devices, np.int64)
    for g in range(groups):
        for e in range(order_start[g], order_start[g + 1] if len(position) else order_start[g]):
            position[begin[order_unit[e]] + order_micro[e]] = e - order_start[g]
        for p in range(places.first[g], places.first[g] + places.width[g]):
            entry[places.device[p]] = order_start[g]
            count[places.device[p]] = order_start[g + 1] - order_start[g]
    start = np.zeros(devices + 1, np.int64)
    start[1:] = np.cumsum(count)
    return Tasks(start, entry, begin, position)


@njit(cache=True)
def _most(units: Units, bundles: Bundles, places: Places, gradient: Floats) -> tuple[int, int, int, int]:
    """Bounds on transfers, lanes, sends and entries."""
    transfers, lanes, sends, entries = 0, 0, 0, 0
    for b in range(len(bundles.fixed)):
        s = bundles.sources[bundles.source_start[b]]
        mine = places.group[s]
        each = units.micro_batches[s] * places.width[mine]
        sends += each
        entries += each * (bundles.source_start[b + 1] - bundles.source_start[b])
        pairs, several, same = 0, 0, True
        for e in range(bundles.target_start[b], bundles.target_start[b + 1]):
            t = bundles.targets[e]
            theirs = places.group[t]
            if units.size[s] == units.size[t]:
                between = max(places.width[mine], places.width[theirs])
                if places.width[mine] > 1 and places.width[theirs] > 1:
                    between = places.width[mine] + places.width[theirs]
                pairs += between
                several += between * units.micro_batches[s]
            else:
                same = False
                several += each + units.micro_batches[t] * places.width[theirs]
        transfers += several
        lanes += pairs if same else several
    for s in range(len(gradient)):
        transfers += places.width[places.group[KINDS * s]]
        lanes += places.width[places.group[KINDS * s]]
    return transfers, lanes, sends, entries


@njit(cache=True)
def transfers_of(
    units: Units,
    bundles: Bundles,
    places: Places,
    wires: Wires,
    tasks: Tasks,
    last: Ints,
    gradient: Floats,
    stated: bool,
    synchronise: bool,
) -> Transfers:
    """The transfers of one iteration. last: the unit whose end lets a stage drop what it keeps; gradient: bytes
    that replicas add up; [stages]. stated, synchronise: see `run_kernel.run_orders`."""
    stages, devices, total = len(last), len(tasks.entry), tasks.start[-1]
    group, replicas, first, width, device = places
    begin, position, task_start = tasks.begin, tasks.position, tasks.start
    most, most_lanes, most_sends, most_entries = _most(units, bundles, places, gradient)
    lane, micro, turn = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    send, buffer = np.empty(most, np.int32), np.empty(most, np.int32)
    wire, into = np.full(most_lanes, -1, np.int32), np.empty(most_lanes, np.int32)
    seconds, nbytes = np.zeros(most_lanes), np.zeros(most_lanes)
    low, high = np.empty(most_lanes, np.int32), np.empty(most_lanes, np.int32)
    send_start, send_waits = np.empty(most_sends + 1, np.int32), np.empty(most_sends, np.int32)
    send_device, held = np.empty(most_sends, np.int32), np.empty(most_sends)
    send_moves = np.empty(most_sends, np.int32)
    sent_by = np.full(total, -1, np.int32)
    entry_send, entry_next = np.empty(most_entries, np.int32), np.empty(most_entries, np.int32)
    waiting = np.zeros(total, np.int32)
    alike = len(wires.wire) == 1
    number = np.full(devices * devices if alike else np.max(wires.wire) + 1, -1, np.int32)
    n_wires = n_lanes = n_sends = n = n_entries = 0
    missing = False
    for b in range(len(bundles.fixed)):
        source, sources = bundles.source_start[b], bundles.source_start[b + 1]
        s = bundles.sources[source]
        mine, size, r = group[s], units.size[s], replicas[group[s]]
        share = size / r
        same = True  # then all micro-batches take the same lanes
        for e in range(bundles.target_start[b], bundles.target_start[b + 1]):
            same &= units.size[bundles.targets[e]] == size
        lanes_of_bundle = n_lanes
        for i in range(units.micro_batches[s]):
            reused = lanes_of_bundle
            for p in range(width[mine]):
                src = device[first[mine] + p]
                send_start[n_sends], send_waits[n_sends] = n, sources - source
                send_device[n_sends] = src
                sent = 0
                for e in range(source, sources):
                    task = task_start[src] + position[begin[bundles.sources[e]] + i]
                    entry_send[n_entries], entry_next[n_entries] = n_sends, sent_by[task]
                    sent_by[task] = n_entries
                    n_entries += 1
                t = bundles.target_start[b]
                while t < bundles.target_start[b + 1]:
                    unit = bundles.targets[t]
                    theirs, other = group[unit], units.size[unit]
                    q_all, upto = replicas[theirs], t + 1
                    while upto < bundles.target_start[b + 1]:
                        beside = bundles.targets[upto]
                        if group[beside] != theirs or units.size[beside] != other:
                            break
                        upto += 1
                    folded = width[mine] < r or width[theirs] < q_all
                    part = other / q_all
                    start_at = i * size + p * share
                    j_low, j_high = i, i + 1
                    if other != size:
                        j_low, j_high = i * size // other, -(-((i + 1) * size) // other)
                    for j in range(j_low, j_high):
                        q_low, q_high = 0, 1
                        if not folded and q_all > 1:
                            q_low = max(0, int((start_at - j * other) / part) - 1)
                            q_high = min(q_all, int((start_at + share - j * other) / part) + 2)
                        for q in range(q_low, q_high):
                            samples, several = share, 1
                            if folded:
                                samples, several = size / max(r, q_all), max(1, r // q_all)
                            elif other != size or r != 1 or q_all != 1:
                                begins = j * other + q * part
                                samples = min(start_at + share, begins + part) - max(start_at, begins)
                                if samples <= LEAST_SAMPLES:
                                    continue
                            dst = device[first[theirs] + q]
                            if same and i > 0:
                                which = reused
                                reused += 1
                            else:
                                which = n_lanes
                                n_lanes += 1
                                into[which], low[which], high[which] = dst, t, upto
                                if bundles.tensors[b] and src != dst:
                                    line = src * devices + dst
                                    latency, bandwidth = wires.latency_s[0, 0], wires.bandwidth[0, 0]
                                    if not alike:
                                        line = wires.wire[src, dst]
                                        latency, bandwidth = wires.latency_s[src, dst], wires.bandwidth[src, dst]
                                    moved = bundles.fixed[b] + bundles.per_sample[b] * samples
                                    nbytes[which] = moved * several
                                    if stated:
                                        seconds[which] = bundles.stated[b] * samples
                                    elif bandwidth > 0:
                                        seconds[which] = bundles.tensors[b] * latency + moved / bandwidth
                                    else:
                                        missing = True
                                    if number[line] < 0:
                                        number[line] = n_wires
                                        n_wires += 1
                                    wire[which] = number[line]
                            reader, until = 1 << 30, -1
                            for e in range(t, upto):
                                u = bundles.targets[e]
                                at = int(position[begin[u] + j])
                                waiting[task_start[dst] + at] += 1
                                reader = min(reader, at)
                                if u % KINDS == F:
                                    at = int(position[begin[last[u // KINDS]] + j])
                                until = max(until, at)
                            lane[n], micro[n], send[n] = which, j, n_sends
                            turn[n] = 4 * reader - 1
                            sent += wire[which] >= 0
                            buffer[n] = task_start[dst] + until
                            n += 1
                    t = upto
                held[n_sends] = bundles.fixed[b] + bundles.per_sample[b] * share if sent else 0.0
                send_moves[n_sends] = sent
                n_sends += 1
    send_start[n_sends] = n
    ring_start, ring_waits = np.zeros(stages + 1, np.int32), np.zeros(stages, np.int32)
    for s in range(stages):
        ring_start[s] = n
        g = group[KINDS * s]
        r = replicas[g]
        if not synchronise or r == 1 or gradient[s] == 0:
            continue
        for kind in (B, I, W):
            if units.exists[KINDS * s + kind]:
                ring_waits[s] += units.micro_batches[KINDS * s + kind] * width[g]
        if ring_waits[s] == 0:
            continue
        for p in range(width[g]):
            src, dst = device[first[g] + p], device[first[g] + (p + 1) % width[g]]
            line, latency, bandwidth = src * devices + dst, wires.latency_s[0, 0], wires.bandwidth[0, 0]
            if not alike:
                line = wires.wire[src, dst]
                latency, bandwidth = wires.latency_s[src, dst], wires.bandwidth[src, dst]
            if number[line] < 0:
                number[line] = n_wires
                n_wires += 1
            wire[n_lanes], low[n_lanes] = number[line], s
            if bandwidth > 0:
                seconds[n_lanes] = ring_s(r, gradient[s], latency, bandwidth)
            else:
                missing = True
            lane[n], turn[n], send[n] = n_lanes, 0, -1
            n_lanes += 1
            n += 1
        if units.exists[KINDS * s + U]:
            for p in range(first[g], first[g] + width[g]):
                waiting[task_start[device[p]] + position[begin[KINDS * s + U]]] += width[g]
    ring_start[stages] = n
    return Transfers(
        lane[:n],
        micro[:n],
        turn[:n],
        send[:n],
        buffer[:n],
        wire[:n_lanes],
        into[:n_lanes],
        seconds[:n_lanes],
        nbytes[:n_lanes],
        low[:n_lanes],
        high[:n_lanes],
        send_start[: n_sends + 1],
        send_waits[:n_sends],
        send_moves[:n_sends],
        send_device[:n_sends],
        held[:n_sends],
        sent_by,
        entry_send[:n_entries],
        entry_next[:n_entries],
        ring_start,
        ring_waits,
        waiting,
        n_wires,
        missing,
    )
