"""Run the orders of a draft's stages: when it ends and what every device holds at its peak, on plain arrays.

The meaning is that of `solvers.evaluation` where transfers occupy links only, and
`tests/solvers/pipelines/test_estimate.py` holds the two together: told a second time because searches ask thousands of
times, and the columns take 1.3 to 1.8 times as long to say it. Devices take the
tasks of their order in turn, so that the only choice is which transfer a link takes next. Memory is counted as the
simulation goes: what is freed at an instant is freed before anything is held, what is held for no time is a
peak between the two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.heap_kernel import pop, pop_event, push, push_event
from solvers.kernels.plain import ZERO
from solvers.pipelines.timing.bundles_kernel import Bundles
from solvers.pipelines.timing.stages_kernel import KINDS, B, F, I, U, W, runs_again
from solvers.pipelines.timing.transfers_kernel import Places, Tasks, Transfers, Units, Wires, tasks_of, transfers_of


class Keeps(NamedTuple):
    """What stages hold: saved bytes of a micro-batch, bytes kept beside if they recompute, whether they do, bytes
    held all the time, and of gradients that replicas add up; [stages]."""

    saved: Floats
    kept: Floats
    again: Bools
    static: Floats
    gradient: Floats


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

    order_start, order_unit, order_micro: see `orders_kernel.orders_of`. stated: transfers take the seconds stated
    with tensors. counted: memory is counted, else it is what stages hold all the time. synchronise: replicas
    add up gradients.
    """
    stages = len(keeps.saved)
    level = np.zeros((np.max(places.device) + 1, 6))
    for s in range(stages):
        g = places.group[KINDS * s]
        for p in range(places.first[g], places.first[g] + places.width[g]):
            level[places.device[p], 0] += keeps.static[s]
    level[:, 1] = level[:, 0]
    last = np.full(stages, -1, np.int64)
    for s in range(stages):
        for kind in (F, I, B, W):
            if units.exists[KINDS * s + kind]:
                last[s] = KINDS * s + kind
    tasks = tasks_of(units, places, order_start, order_unit, order_micro)
    total = np.inf
    possible = len(tasks.position) == order_start[-1] and np.isfinite(units.seconds).all()
    if possible and _in_turn(units, bundles, tasks):
        transfers = transfers_of(units, bundles, places, wires, tasks, last, keeps.gradient, stated, synchronise)
        if not transfers.missing:
            total = _run(units, keeps, bundles, places, tasks, transfers, order_unit, order_micro, last, counted, level)
    return total, level[:, 1].copy()


@njit(cache=True)
def _in_turn(units: Units, bundles: Bundles, tasks: Tasks) -> bool:
    """Whether on every device what a task waits for on the same device comes before it."""
    fine = True
    for s in range(len(units.exists) // KINDS):
        for a, b in ((F, B), (F, I), (F, W), (I, W), (F, U), (B, U), (I, U), (W, U)):
            fine &= _before(units, KINDS * s + a, KINDS * s + b, tasks)
    for e in range(len(bundles.local)):
        fine &= _before(units, bundles.local[e, 0], bundles.local[e, 1], tasks)
    return fine


@njit(cache=True)
def _before(units: Units, a: int, b: int, tasks: Tasks) -> bool:
    fine = True
    if units.exists[a] and units.exists[b]:
        one, other, alike = tasks.begin[a], tasks.begin[b], units.size[a] == units.size[b]
        for i in range(units.micro_batches[a]):
            low, high = i, i + 1
            if not alike:
                low = i * units.size[a] // units.size[b]
                high = -(-((i + 1) * units.size[a]) // units.size[b])
            for j in range(low, high):
                fine &= tasks.position[one + i] < tasks.position[other + j]
    return fine


@njit(cache=True)
def _settle(level: Floats, device: int, now: float) -> None:
    least = level[device, 0] - level[device, 3]
    level[device, 0] = least + level[device, 2]
    level[device, 1] = max(level[device, 1], level[device, 0], least + level[device, 4])
    level[device, 2] = level[device, 3] = level[device, 4] = 0.0
    level[device, 5] = now


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
def _run(
    units: Units,
    keeps: Keeps,
    bundles: Bundles,
    places: Places,
    tasks: Tasks,
    transfers: Transfers,
    order_unit: Ints,
    order_micro: Ints,
    last: Ints,
    counted: bool,
    level: Floats,
) -> float:
    """The event simulation: its seconds, inf if it deadlocks. Writes level; last: see `transfers_of`."""
    task_start, begin, position = tasks.start, tasks.begin, tasks.position
    devices, n_transfers, wires = len(tasks.entry), len(transfers.lane), transfers.wires
    lane, turn, wire, into = transfers.lane, transfers.turn, transfers.wire, transfers.into
    waiting, send_waits, ring_waits = transfers.waiting, transfers.send_waits, transfers.ring_waits
    base = np.zeros(wires + 1, np.int64)
    for x in range(n_transfers):
        if wire[lane[x]] >= 0:
            base[wire[lane[x]] + 1] += 1
    for w in range(wires):
        base[w + 1] += base[w]
    keys, heap, ready = np.empty(n_transfers, np.int32), np.empty(n_transfers, np.int32), np.zeros(wires, np.int64)
    running = np.full(devices + wires, -1, np.int64)
    upcoming = task_start[:devices].copy()
    started = np.empty(len(waiting))
    when, what = np.empty(devices + wires), np.empty(devices + wires, np.int32)
    events = ZERO
    dirty, is_dirty = np.arange(devices + wires), np.ones(devices + wires, np.bool_)
    n_dirty = devices
    is_dirty[devices:] = False
    # Of buffers: the first that a task's end frees, and the next after each; since when they are held.
    buffers, beside = np.full(len(waiting), -1, np.int32), np.empty(n_transfers, np.int32)
    since = np.empty(n_transfers)
    send_left, send_since = np.zeros(len(send_waits), np.int32), np.empty(len(send_waits))
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
                upcoming[resource] = task + 1
                running[resource] = task
                started[task] = now
                u = order_unit[tasks.entry[resource] + task - task_start[resource]]
                push_event(when, what, events, now + units.seconds[u], resource)
                events += 1
                if counted:
                    s = u // KINDS
                    taken = units.workspace[u]
                    if u % KINDS == F:
                        taken += keeps.kept[s]
                        if not keeps.again[s] or last[s] == u:
                            taken += keeps.saved[s]
                    elif keeps.again[s] and units.exists[KINDS * s + F] and runs_again(units.exists, u):
                        taken += keeps.saved[s]
                    if taken > 0:
                        _take(level, resource, now, taken)
            else:
                w = resource - devices
                if ready[w] == 0:
                    continue
                x = pop(keys, heap, base[w], ready[w], None)
                ready[w] -= 1
                running[resource] = x
                push_event(when, what, events, now + transfers.seconds[lane[x]], resource)
                events += 1
                if counted and transfers.send[x] >= 0:
                    since[x] = now
                    task = transfers.buffer[x]
                    beside[x] = buffers[task]
                    buffers[task] = x
                    _take(level, into[lane[x]], now, transfers.nbytes[lane[x]])
        n_dirty = 0
        if events == 0:
            break
        now = when[0]
        while events > 0 and when[0] == now:
            resource = pop_event(when, what, events)
            events -= 1
            if not is_dirty[resource]:
                is_dirty[resource] = True
                dirty[n_dirty] = resource
                n_dirty += 1
            if resource >= devices:
                x = running[resource]
                running[resource] = -1
                send = transfers.send[x]
                if send < 0:
                    s = transfers.low[lane[x]]
                    g = places.group[KINDS * s]
                    if units.exists[KINDS * s + U]:
                        for p in range(places.first[g], places.first[g] + places.width[g]):
                            d = places.device[p]
                            waiting[task_start[d] + position[begin[KINDS * s + U]]] -= 1
                            if not is_dirty[d]:
                                is_dirty[d] = True
                                dirty[n_dirty] = d
                                n_dirty += 1
                    continue
                d = int(into[lane[x]])
                for f in range(transfers.low[lane[x]], transfers.high[lane[x]]):
                    waiting[task_start[d] + position[begin[bundles.targets[f]] + transfers.micro[x]]] -= 1
                if not is_dirty[d]:
                    is_dirty[d] = True
                    dirty[n_dirty] = d
                    n_dirty += 1
                if counted:
                    send_left[send] -= 1
                    if send_left[send] == 0:
                        _free(level, transfers.send_device[send], now, transfers.held[send], send_since[send])
                continue
            task = running[resource]
            running[resource] = -1
            entry = tasks.entry[resource] + task - task_start[resource]
            u, j = order_unit[entry], order_micro[entry]
            s = u // KINDS
            if counted:
                if units.workspace[u] > 0:
                    _free(level, resource, now, units.workspace[u], started[task])
                if last[s] == u and units.exists[KINDS * s + F]:
                    from_when = started[task_start[resource] + position[begin[KINDS * s + F] + j]]
                    if keeps.kept[s] > 0:
                        _free(level, resource, now, keeps.kept[s], from_when)
                    if keeps.saved[s] > 0:
                        if keeps.again[s]:
                            for v in range(KINDS * s + B, KINDS * s + U):
                                if units.exists[v] and runs_again(units.exists, v):
                                    from_when = started[task_start[resource] + position[begin[v] + j]]
                        _free(level, resource, now, keeps.saved[s], from_when)
                x = buffers[task]
                while x >= 0:
                    _free(level, resource, now, transfers.nbytes[lane[x]], since[x])
                    x = beside[x]
            if u % KINDS != F and u % KINDS != U and ring_waits[s] > 0:
                ring_waits[s] -= 1
                if ring_waits[s] == 0:
                    for x in range(transfers.ring_start[s], transfers.ring_start[s + 1]):
                        w = wire[lane[x]]
                        push(keys, heap, base[w], ready[w], turn[x], x, None)
                        ready[w] += 1
                        if not is_dirty[devices + w]:
                            is_dirty[devices + w] = True
                            dirty[n_dirty] = devices + w
                            n_dirty += 1
            e = transfers.sent_by[task]
            while e >= 0:
                send = transfers.entry_send[e]
                e = transfers.entry_next[e]
                if counted and send_left[send] == 0 and transfers.held[send] > 0:
                    # The first of the tasks that make it.
                    send_left[send] = transfers.send_moves[send]
                    send_since[send] = now
                    _take(level, resource, now, transfers.held[send])
                send_waits[send] -= 1
                if send_waits[send] > 0:
                    continue
                for x in range(transfers.send_start[send], transfers.send_start[send + 1]):
                    w = wire[lane[x]]
                    if w >= 0:
                        push(keys, heap, base[w], ready[w], turn[x], x, None)
                        ready[w] += 1
                        if not is_dirty[devices + w]:
                            is_dirty[devices + w] = True
                            dirty[n_dirty] = devices + w
                            n_dirty += 1
                        continue
                    d = int(into[lane[x]])
                    for f in range(transfers.low[lane[x]], transfers.high[lane[x]]):
                        waiting[task_start[d] + position[begin[bundles.targets[f]] + transfers.micro[x]]] -= 1
                    if not is_dirty[d]:
                        is_dirty[d] = True
                        dirty[n_dirty] = d
                        n_dirty += 1
    for d in range(devices):
        if upcoming[d] < task_start[d + 1]:
            return np.inf
        _settle(level, d, now)
    return now
