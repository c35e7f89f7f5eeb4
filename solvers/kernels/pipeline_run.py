"""Run the orders of a draft's stages: when it ends and what every device holds at its peak, on plain arrays.

The meaning is that of `solvers.simulate` and `solvers.memory` where transfers occupy links only. Devices take the
tasks of their order in turn, so that the only choice is which transfer a link takes next. Memory is counted as the
simulation goes: what is freed at an instant is freed before anything is held, what is held for no time is a
peak between the two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.kernels.pipeline_bundles import Bundles
from solvers.kernels.pipeline_stages import KINDS, B, Bools, F, Floats, I, Ints, U, W, runs_again


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


class Keeps(NamedTuple):
    """What stages hold: saved bytes of a micro-batch, bytes kept beside if they recompute, whether they do, bytes
    held all the time, and of gradients that replicas add up; [stages]."""

    saved: Floats
    kept: Floats
    again: Bools
    static: Floats
    gradient: Floats


@njit(cache=True)
def _take(level: Floats, device: int, now: float, nbytes: float) -> None:
    """level: (bytes, peak, taken, freed, held for no time, time of those three), [devices, 6]."""
    if now > level[device, 5]:
        _settle(level, device, now)
    level[device, 2] += nbytes


@njit(cache=True)
def _free(level: Floats, device: int, now: float, nbytes: float, since: float) -> None:
    if now > level[device, 5]:
        _settle(level, device, now)
    if now > since:
        level[device, 3] += nbytes
    else:
        level[device, 2] -= nbytes
        level[device, 4] = max(level[device, 4], nbytes)


@njit(cache=True)
def _settle(level: Floats, device: int, now: float) -> None:
    least = level[device, 0] - level[device, 3]
    level[device, 0] = least + level[device, 2]
    level[device, 1] = max(level[device, 1], level[device, 0], least + level[device, 4])
    level[device, 2] = level[device, 3] = level[device, 4] = 0.0
    level[device, 5] = now


@njit(cache=True)
def _push_event(when: Floats, what: Ints, size: int, time: float, resource: int) -> None:
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if when[parent] <= time:
            break
        when[child], what[child] = when[parent], what[parent]
        child = parent
    when[child], what[child] = time, resource


@njit(cache=True)
def _pop_event(when: Floats, what: Ints, size: int) -> None:
    size -= 1
    time, resource = when[size], what[size]
    node = 0
    while 2 * node + 1 < size:
        child = 2 * node + 1
        if child + 1 < size and when[child + 1] < when[child]:
            child += 1
        if when[child] >= time:
            break
        when[node], what[node] = when[child], what[child]
        node = child
    when[node], what[node] = time, resource


@njit(cache=True)
def _push_transfer(heap: Ints, base: int, size: int, item: int, priority: Floats) -> None:
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        other = heap[base + parent]
        if priority[other] < priority[item] or (priority[other] == priority[item] and other < item):
            break
        heap[base + child] = other
        child = parent
    heap[base + child] = item


@njit(cache=True)
def _pop_transfer(heap: Ints, base: int, size: int, priority: Floats) -> int:
    top = heap[base]
    size -= 1
    item = heap[base + size]
    node = 0
    while 2 * node + 1 < size:
        child = 2 * node + 1
        other = heap[base + child]
        if child + 1 < size:
            beside = heap[base + child + 1]
            if priority[beside] < priority[other] or (priority[beside] == priority[other] and beside < other):
                child += 1
                other = beside
        if priority[item] < priority[other] or (priority[item] == priority[other] and item < other):
            break
        heap[base + node] = other
        node = child
    heap[base + node] = item
    return int(top)


@njit(cache=True)
def folds(bundles: Bundles, units: Units, places: Places) -> bool:
    """Whether replicas of a stage all do the same at the same time, if links are alike and have wires of their
    own: between stages that exchange tensors one number of replicas divides the other, and sizes are equal."""
    for b in range(len(bundles.fixed)):
        s = bundles.sources[bundles.source_start[b]]
        mine = places.replicas[places.group[s]]
        for e in range(bundles.target_start[b], bundles.target_start[b + 1]):
            t = bundles.targets[e]
            theirs = places.replicas[places.group[t]]
            if units.size[s] != units.size[t] or (mine % theirs != 0 and theirs % mine != 0):
                return False
    return True


@njit(cache=True)
def run_orders(
    units: Units,
    keeps: Keeps,
    bundles: Bundles,
    places: Places,
    wires: Wires,
    order_start: Ints,
    order_unit: Ints,
    order_micro: Ints,
    stated: bool,
    counted: bool,
    synchronise: bool,
) -> tuple[float, Floats]:
    """(seconds, peak bytes of every device) of one iteration; inf if the order deadlocks or a link is missing.

    order_start, order_unit, order_micro: see `pipeline_orders.orders_of`. stated: transfers take the seconds stated
    with tensors. counted: memory is counted, else it is what stages hold all the time. synchronise: replicas
    add up gradients.
    """
    stages, n_units, groups = len(keeps.saved), len(units.micro_batches), len(places.replicas)
    group, replicas, first, width, device = places
    devices = np.max(device) + 1
    alike = len(wires.wire) == 1
    level = np.zeros((devices, 6))
    for s in range(stages):
        g = group[KINDS * s]
        for p in range(first[g], first[g] + width[g]):
            level[device[p], 0] += keeps.static[s]
    level[:, 1] = level[:, 0]
    nowhere = level[:, 1].copy()

    # Where every micro-batch of a unit is in the order of its devices.
    begin = np.zeros(n_units + 1, np.int64)
    for u in range(n_units):
        begin[u + 1] = begin[u] + (units.micro_batches[u] if units.exists[u] else 0)
    position = np.full(begin[n_units], -1, np.int64)
    for g in range(groups):
        for e in range(order_start[g], order_start[g + 1]):
            position[begin[order_unit[e]] + order_micro[e]] = e - order_start[g]
    if begin[n_units] != order_start[groups]:
        return np.inf, nowhere
    for u in range(n_units):
        if units.exists[u] and not np.isfinite(units.seconds[u]):
            return np.inf, nowhere
    last = np.full(stages, -1, np.int64)  # the unit whose end lets a stage drop what it keeps
    for s in range(stages):
        for kind in (F, I, B, W):
            if units.exists[KINDS * s + kind]:
                last[s] = KINDS * s + kind
    if not _in_turn(units, bundles, begin, position):
        return np.inf, nowhere

    task_start = np.zeros(devices + 1, np.int64)
    of_device = np.full(devices, -1, np.int64)
    tasks = 0
    for g in range(groups):
        for p in range(first[g], first[g] + width[g]):
            of_device[device[p]] = g
    for d in range(devices):
        g = of_device[d]
        task_start[d] = tasks
        if g >= 0:
            tasks += order_start[g + 1] - order_start[g]
    task_start[devices] = tasks
    waiting = np.zeros(tasks, np.int64)

    # Transfers, in the order in which they take turns when nothing else tells.
    bundle_count = len(bundles.fixed)
    sends, transfers, entries = 0, 0, 0
    for b in range(bundle_count):
        s = bundles.sources[bundles.source_start[b]]
        each = units.micro_batches[s] * width[group[s]]
        sends += each
        entries += each * (bundles.source_start[b + 1] - bundles.source_start[b])
        for e in range(bundles.target_start[b], bundles.target_start[b + 1]):
            t = bundles.targets[e]
            transfers += each + units.micro_batches[t] * width[group[t]]
    if synchronise:
        for s in range(stages):
            transfers += replicas[group[KINDS * s]]
    send_bundle, send_device = np.zeros(sends, np.int64), np.zeros(sends, np.int64)
    send_start = np.zeros(sends + 1, np.int64)
    send_waits, send_left = np.zeros(sends, np.int64), np.zeros(sends, np.int64)
    send_since = np.zeros(sends)
    sent_by = np.full(tasks, -1, np.int64)  # the first entry of a task's sends
    entry_send, entry_next = np.zeros(entries, np.int64), np.zeros(entries, np.int64)
    wire = np.full(transfers, -1, np.int64)
    feeds, fed = np.zeros((transfers, 2), np.int64), np.zeros(transfers, np.int64)
    feed_micro, into = np.zeros(transfers, np.int64), np.zeros(transfers, np.int64)
    duration, priority = np.zeros(transfers), np.zeros(transfers)
    nbytes, since = np.zeros(transfers), np.zeros(transfers)
    of_send = np.full(transfers, -1, np.int64)
    held_until = np.full(tasks, -1, np.int64)  # the first of the transfers whose buffer a task's end frees
    held_next = np.full(transfers, -1, np.int64)
    wires_total = devices * devices if alike else np.max(wires.wire) + 1
    number = np.full(wires_total, -1, np.int64)
    n_wires = n_sends = n_transfers = n_entries = 0
    for b in range(bundle_count):
        low, high = bundles.source_start[b], bundles.source_start[b + 1]
        s = bundles.sources[low]
        mine, size, r = group[s], units.size[s], replicas[group[s]]
        free = bundles.tensors[b] == 0
        share = size / r
        for i in range(units.micro_batches[s]):
            for p in range(width[mine]):
                src = device[first[mine] + p]
                send_bundle[n_sends], send_device[n_sends] = b, src
                send_start[n_sends] = n_transfers
                send_waits[n_sends] = high - low
                for e in range(low, high):
                    task = task_start[src] + position[begin[bundles.sources[e]] + i]
                    entry_send[n_entries], entry_next[n_entries] = n_sends, sent_by[task]
                    sent_by[task] = n_entries
                    n_entries += 1
                t = bundles.target_start[b]
                while t < bundles.target_start[b + 1]:
                    unit = bundles.targets[t]
                    theirs, other, q_all = group[unit], units.size[unit], replicas[group[unit]]
                    upto = t + 1
                    while upto < bundles.target_start[b + 1]:
                        beside = bundles.targets[upto]
                        if group[beside] != theirs or units.size[beside] != other:
                            break
                        upto += 1
                    part = other / q_all
                    start_at = i * size + p * share
                    end_at = start_at + share
                    folded = width[mine] < r or width[theirs] < q_all
                    j_low, j_high = (i, i + 1) if folded else (i * size // other, -(-((i + 1) * size) // other))
                    for j in range(j_low, j_high):
                        q_low, q_high = 0, 1
                        if not folded:
                            q_low = max(0, int((start_at - j * other) / part) - 1)
                            q_high = min(q_all, int((end_at - j * other) / part) + 2)
                        for q in range(q_low, q_high):
                            samples, several = share, 1
                            if folded:
                                samples, several = size / max(r, q_all), max(1, r // q_all)
                            else:
                                begins = j * other + q * part
                                samples = min(end_at, begins + part) - max(start_at, begins)
                                if samples <= 1e-9:
                                    continue
                            dst = device[first[theirs] + q]
                            x = n_transfers
                            n_transfers += 1
                            of_send[x] = n_sends
                            feeds[x, 0], feeds[x, 1] = t, upto
                            fed[x], feed_micro[x], into[x] = theirs, j, dst
                            reader, until = np.int64(1 << 62), np.int64(-1)
                            for e in range(t, upto):
                                u = bundles.targets[e]
                                at = position[begin[u] + j]
                                waiting[task_start[dst] + at] += 1
                                reader = min(reader, at)
                                if u % KINDS == F:
                                    at = position[begin[last[u // KINDS]] + j]
                                until = max(until, at)
                            if free:
                                continue
                            line = src * devices + dst
                            latency, bandwidth = wires.latency_s[0, 0], wires.bandwidth[0, 0]
                            if not alike:
                                line = wires.wire[src, dst]
                                latency, bandwidth = wires.latency_s[src, dst], wires.bandwidth[src, dst]
                            moved = bundles.fixed[b] + bundles.per_sample[b] * samples
                            if stated:
                                duration[x] = bundles.stated[b] * samples
                            elif bandwidth > 0:
                                duration[x] = bundles.tensors[b] * latency + moved / bandwidth
                            else:
                                return np.inf, nowhere
                            if number[line] < 0:
                                number[line] = n_wires
                                n_wires += 1
                            wire[x] = number[line]
                            priority[x] = reader - 0.25
                            nbytes[x] = moved * several
                            task = task_start[dst] + until
                            held_next[x] = held_until[task]
                            held_until[task] = x
                    t = upto
                send_left[n_sends] = n_transfers - send_start[n_sends]
                n_sends += 1
    send_start[n_sends] = n_transfers
    ring_start = np.zeros(stages + 1, np.int64)
    ring_waits = np.zeros(stages, np.int64)
    for s in range(stages):
        ring_start[s] = n_transfers
        g = group[KINDS * s]
        r = replicas[g]
        if synchronise and r > 1 and keeps.gradient[s] > 0:
            for kind in (B, I, W):
                if units.exists[KINDS * s + kind]:
                    ring_waits[s] += units.micro_batches[KINDS * s + kind] * width[g]
            if ring_waits[s] == 0:
                continue
            for p in range(width[g]):
                src, dst = device[first[g] + p], device[first[g] + (p + 1) % width[g]]
                latency, bandwidth = wires.latency_s[0, 0], wires.bandwidth[0, 0]
                line = src * devices + dst
                if not alike:
                    line = wires.wire[src, dst]
                    latency, bandwidth = wires.latency_s[src, dst], wires.bandwidth[src, dst]
                if bandwidth <= 0:
                    return np.inf, nowhere
                if number[line] < 0:
                    number[line] = n_wires
                    n_wires += 1
                x = n_transfers
                n_transfers += 1
                wire[x] = number[line]
                duration[x] = 2 * (r - 1) * latency + 2 * (r - 1) / r * keeps.gradient[s] / bandwidth
                feeds[x, 0] = s
            if units.exists[KINDS * s + U]:
                for p in range(first[g], first[g] + width[g]):
                    waiting[task_start[device[p]] + position[begin[KINDS * s + U]]] += width[g]
    ring_start[stages] = n_transfers

    # Ready transfers of every wire: heaps side by side.
    base = np.zeros(n_wires + 1, np.int64)
    for x in range(n_transfers):
        if wire[x] >= 0:
            base[wire[x] + 1] += 1
    for w in range(n_wires):
        base[w + 1] += base[w]
    heap = np.zeros(n_transfers, np.int64)
    ready = np.zeros(n_wires, np.int64)
    running = np.full(devices + n_wires, -1, np.int64)
    upcoming = task_start[:devices].copy()
    started = np.zeros(tasks)
    when, what = np.zeros(devices + n_wires), np.zeros(devices + n_wires, np.int64)
    events = 0
    dirty, is_dirty = np.zeros(devices + n_wires, np.int64), np.zeros(devices + n_wires, np.bool_)
    n_dirty = 0
    for d in range(devices):
        dirty[n_dirty] = d
        is_dirty[d] = True
        n_dirty += 1
    now = 0.0
    while True:
        for k in range(n_dirty):
            resource = dirty[k]
            is_dirty[resource] = False
            if running[resource] >= 0:
                continue
            if resource < devices:
                task = upcoming[resource]
                if task == task_start[resource + 1] or waiting[task] > 0:
                    continue
                upcoming[resource] += 1
                running[resource] = task
                started[task] = now
                u = order_unit[order_start[of_device[resource]] + task - task_start[resource]]
                _push_event(when, what, events, now + units.seconds[u], resource)
                events += 1
                if counted:
                    s = u // KINDS
                    nbytes_now = units.workspace[u]
                    if u % KINDS == F:
                        nbytes_now += keeps.kept[s]
                        if not keeps.again[s] or last[s] == u:
                            nbytes_now += keeps.saved[s]
                    elif keeps.again[s] and units.exists[KINDS * s + F] and runs_again(units.exists, u):
                        nbytes_now += keeps.saved[s]
                    if nbytes_now > 0:
                        _take(level, resource, now, nbytes_now)
            else:
                w = resource - devices
                if ready[w] == 0:
                    continue
                x = _pop_transfer(heap, base[w], ready[w], priority)
                ready[w] -= 1
                running[resource] = x
                _push_event(when, what, events, now + duration[x], resource)
                events += 1
                if counted and of_send[x] >= 0:
                    since[x] = now
                    _take(level, into[x], now, nbytes[x])
        n_dirty = 0
        if events == 0:
            break
        now = when[0]
        while events > 0 and when[0] == now:
            resource = what[0]
            _pop_event(when, what, events)
            events -= 1
            if not is_dirty[resource]:
                is_dirty[resource] = True
                dirty[n_dirty] = resource
                n_dirty += 1
            if resource < devices:
                task = running[resource]
                running[resource] = -1
                e = order_start[of_device[resource]] + task - task_start[resource]
                u, j = order_unit[e], order_micro[e]
                s, kind = u // KINDS, u % KINDS
                if counted:
                    if units.workspace[u] > 0:
                        _free(level, resource, now, units.workspace[u], started[task])
                    if last[s] == u and units.exists[KINDS * s + F]:
                        forward = task_start[resource] + position[begin[KINDS * s + F] + j]
                        from_when = started[forward]
                        if keeps.kept[s] > 0:
                            _free(level, resource, now, keeps.kept[s], from_when)
                        if keeps.saved[s] > 0:
                            if keeps.again[s]:
                                for other_kind in (W, I, B):
                                    v = KINDS * s + other_kind
                                    if units.exists[v] and runs_again(units.exists, v):
                                        from_when = started[task_start[resource] + position[begin[v] + j]]
                            _free(level, resource, now, keeps.saved[s], from_when)
                    x = held_until[task]
                    while x >= 0:
                        _free(level, resource, now, nbytes[x], since[x])
                        x = held_next[x]
                if kind != F and kind != U and ring_waits[s] > 0:
                    ring_waits[s] -= 1
                    if ring_waits[s] == 0:
                        for x in range(ring_start[s], ring_start[s + 1]):
                            w = wire[x]
                            _push_transfer(heap, base[w], ready[w], x, priority)
                            ready[w] += 1
                            if not is_dirty[devices + w]:
                                is_dirty[devices + w] = True
                                dirty[n_dirty] = devices + w
                                n_dirty += 1
                e = sent_by[task]
                while e >= 0:
                    send = entry_send[e]
                    e = entry_next[e]
                    b = send_bundle[send]
                    makers = bundles.source_start[b + 1] - bundles.source_start[b]
                    if counted and bundles.tensors[b] > 0 and send_waits[send] == makers:
                        send_since[send] = now
                        held = bundles.fixed[b] + bundles.per_sample[b] * (units.size[u] / replicas[group[u]])
                        _take(level, resource, now, held)
                    send_waits[send] -= 1
                    if send_waits[send] > 0:
                        continue
                    for x in range(send_start[send], send_start[send + 1]):
                        w = wire[x]
                        if w >= 0:
                            _push_transfer(heap, base[w], ready[w], x, priority)
                            ready[w] += 1
                            if not is_dirty[devices + w]:
                                is_dirty[devices + w] = True
                                dirty[n_dirty] = devices + w
                                n_dirty += 1
                        else:
                            d = into[x]
                            for f in range(feeds[x, 0], feeds[x, 1]):
                                waiting[task_start[d] + position[begin[bundles.targets[f]] + feed_micro[x]]] -= 1
                            if not is_dirty[d]:
                                is_dirty[d] = True
                                dirty[n_dirty] = d
                                n_dirty += 1
            else:
                x = running[resource]
                running[resource] = -1
                send = of_send[x]
                if send < 0:
                    s = feeds[x, 0]
                    g = group[KINDS * s]
                    if units.exists[KINDS * s + U]:
                        for p in range(first[g], first[g] + width[g]):
                            d = device[p]
                            waiting[task_start[d] + position[begin[KINDS * s + U]]] -= 1
                            if not is_dirty[d]:
                                is_dirty[d] = True
                                dirty[n_dirty] = d
                                n_dirty += 1
                    continue
                d = into[x]
                for f in range(feeds[x, 0], feeds[x, 1]):
                    waiting[task_start[d] + position[begin[bundles.targets[f]] + feed_micro[x]]] -= 1
                if not is_dirty[d]:
                    is_dirty[d] = True
                    dirty[n_dirty] = d
                    n_dirty += 1
                if counted:
                    send_left[send] -= 1
                    if send_left[send] == 0:
                        b = send_bundle[send]
                        u = bundles.sources[bundles.source_start[b]]
                        held = bundles.fixed[b] + bundles.per_sample[b] * (units.size[u] / replicas[group[u]])
                        _free(level, send_device[send], now, held, send_since[send])
    for d in range(devices):
        if upcoming[d] < task_start[d + 1] or running[d] >= 0:
            return np.inf, nowhere
        _settle(level, d, now)
    return now, level[:, 1].copy()


@njit(cache=True)
def _in_turn(units: Units, bundles: Bundles, begin: Ints, position: Ints) -> bool:
    """Whether on every device what a task waits for on the same device comes before it."""
    for s in range(len(units.micro_batches) // KINDS):
        for a, b in ((F, B), (F, I), (F, W), (I, W), (F, U), (B, U), (I, U), (W, U)):
            if not _before(units, KINDS * s + a, KINDS * s + b, begin, position):
                return False
    for e in range(len(bundles.local)):
        if not _before(units, bundles.local[e, 0], bundles.local[e, 1], begin, position):
            return False
    return True


@njit(cache=True)
def _before(units: Units, a: int, b: int, begin: Ints, position: Ints) -> bool:
    if not (units.exists[a] and units.exists[b]):
        return True
    for i in range(units.micro_batches[a]):
        low, high = i * units.size[a], (i + 1) * units.size[a]
        for j in range(low // units.size[b], -(-high // units.size[b])):
            if position[begin[a] + i] >= position[begin[b] + j]:
                return False
    return True
