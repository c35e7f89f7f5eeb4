"""What devices hold beside their parameters, and from when to when, on plain arrays.

Saved activations are held from the start of a forward (a stage that recomputes: of its backward, and what it reads
of its own device's stages from its forward) until the end of the last backward of the same micro-batch; a received
tensor from the start of its transfer until its reader (in training, the reader's backward) is done; a sent tensor
from the end of its producer until its last transfer ends; workspace while its task runs. Where operators run one by
one, what one leaves for another on its device is held until the last of these ended.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.evaluation.tasks import Bools, F, Floats, Holds, Ints, Rows, Sends, Tasks, U, Units

HOLDS, SINCE, UNTIL = range(3)


class UnitBytes(NamedTuple):
    """Bytes that a task of every unit holds, [units]. saved: activations for the backward; kept: what a stage that
    recomputes reads of its own devices' stages; working: workspace."""

    saved: Floats
    kept: Floats
    working: Floats


class HandedOn(NamedTuple):
    """What single operators hand to one another on a device: tensors of each operator, their bytes [tensors, 2],
    sum groups and readers, as in `columns.GraphColumns`; whether a tensor counts, [tensors], and a reader,
    [operators]."""

    output_start: Ints
    output: Ints
    nbytes: Floats
    sum_group: Ints
    consumer_start: Ints
    consumer: Ints
    makes: Bools
    reads: Bools


class _Store(NamedTuple):
    """Columns of `Holds` as they are written, and how many of each there are."""

    room: bool
    counts: Ints
    device: Ints
    nbytes: Floats
    since_start: Ints
    since: Ints
    from_end: Bools
    until_start: Ints
    until: Ints


@njit(cache=True)
def _store(room: bool, holds: int, since: int, until: int) -> _Store:
    return _Store(
        room, np.zeros(3, np.int64), np.empty(holds, np.int64), np.empty(holds), np.zeros(holds + 1, np.int64),
        np.empty(since, np.int64), np.empty(holds, np.bool_), np.zeros(holds + 1, np.int64), np.empty(until, np.int64),
    )  # fmt: skip


@njit(cache=True)
def _since(store: _Store, task: int) -> None:
    if store.room:
        store.since[store.counts[SINCE]] = task
    store.counts[SINCE] += 1


@njit(cache=True)
def _until(store: _Store, task: int) -> None:
    if store.room:
        store.until[store.counts[UNTIL]] = task
    store.counts[UNTIL] += 1


@njit(cache=True)
def _close(store: _Store, device: int, nbytes: float, from_end: bool) -> None:
    """A hold of the instants written since the last one."""
    at = store.counts[HOLDS]
    store.counts[HOLDS] = at + 1
    if store.room:
        store.device[at], store.nbytes[at], store.from_end[at] = device, nbytes, from_end
        store.since_start[at + 1], store.until_start[at + 1] = store.counts[SINCE], store.counts[UNTIL]


@njit(cache=True)
def _backwards(units: Units, forward_of: Ints, mirror_start: Ints, mirror: Ints, u: int, k: int) -> int:
    """The k-th unit of the backward of forward unit ``u``; -1 when there are no more."""
    found = 0
    if units.operator[u] < 0:
        for v in range(u + 1, len(units.stage)):
            if units.stage[v] != units.stage[u]:
                break
            if units.kind[v] != U:
                if found == k:
                    return v
                found += 1
        return -1
    o = units.operator[u]
    for e in range(mirror_start[o], mirror_start[o + 1]):
        for h in range(units.home_start[mirror[e]], units.home_start[mirror[e] + 1]):
            v = units.home[h]
            if units.stage[v] == units.stage[u] and units.kind[v] != U and units.kind[v] != F:
                if found == k:
                    return int(v)
                found += 1
    return -1


@njit(cache=True)
def _released(store: _Store, units: Units, rows: Rows, releases: Ints, release_start: Ints, row: int) -> None:
    """A forward keeps what it holds until its micro-batch's last backward has ended; any other task to its end."""
    _until(store, row)
    u, j = rows.unit[row], rows.micro_batch[row]
    if units.kind[u] != F:
        return
    group = units.group[u]
    begin, end = units.group_start[group], units.group_start[group + 1]
    for q in range(begin, end):
        if units.group_device[q] == rows.device[row]:
            for e in range(release_start[u], release_start[u + 1]):
                _until(store, rows.of_slot[units.slot[releases[e]] + j * (end - begin) + q - begin])


@njit(cache=True)
def _activations(
    store: _Store, units: Units, rows: Rows, nbytes: UnitBytes, releases: Ints, release_start: Ints, again_of: Ints
) -> None:
    for row in range(len(rows.unit)):
        u = rows.unit[row]
        device = rows.device[row]
        if nbytes.saved[u] > 0:
            since = row
            if again_of[units.stage[u]] >= 0:
                group = units.group[u]
                begin, end = units.group_start[group], units.group_start[group + 1]
                for q in range(begin, end):
                    if units.group_device[q] == device:
                        slot = units.slot[again_of[units.stage[u]]] + rows.micro_batch[row] * (end - begin)
                        since = rows.of_slot[slot + q - begin]
            _since(store, since)
            _released(store, units, rows, releases, release_start, row)
            _close(store, device, nbytes.saved[u], False)
        if nbytes.kept[u] > 0:
            _since(store, row)
            _released(store, units, rows, releases, release_start, row)
            _close(store, device, nbytes.kept[u], False)
        if nbytes.working[u] > 0:
            _since(store, row)
            _until(store, row)
            _close(store, device, nbytes.working[u], False)


@njit(cache=True)
def _buffers(
    store: _Store, units: Units, rows: Rows, tasks: Tasks, sends: Sends, releases: Ints, release_start: Ints
) -> None:
    for s in range(len(sends.device)):
        for e in range(sends.transfer_start[s], sends.transfer_start[s + 1]):
            task = sends.transfer[e]
            if tasks.reader_start[task] == tasks.reader_start[task + 1]:
                continue  # the sender's half
            _since(store, task)
            for f in range(tasks.reader_start[task], tasks.reader_start[task + 1]):
                _released(store, units, rows, releases, release_start, tasks.reader[f])
            _close(store, tasks.to_device[task], tasks.nbytes[task], False)
        for e in range(sends.maker_start[s], sends.maker_start[s + 1]):
            _since(store, sends.maker[e])
        for e in range(sends.transfer_start[s], sends.transfer_start[s + 1]):
            _until(store, sends.transfer[e])
        _close(store, sends.device[s], sends.nbytes[s], True)


@njit(cache=True)
def _row_at(units: Units, rows: Rows, operator: int, device: int) -> int:
    """The task of a single operator on a device; -1 if there is none."""
    found = -1
    for h in range(units.home_start[operator], units.home_start[operator + 1]):
        u = units.home[h]
        if units.operator[u] < 0:
            continue
        begin, end = units.group_start[units.group[u]], units.group_start[units.group[u] + 1]
        for q in range(begin, end):
            if units.group_device[q] == device:
                found = rows.of_slot[units.slot[u] + q - begin]
    return found


@njit(cache=True)
def _handed_on(store: _Store, units: Units, rows: Rows, handed: HandedOn) -> None:
    summed = np.empty(16, np.int64)
    for row in range(len(rows.unit)):
        u, device = rows.unit[row], rows.device[row]
        o = units.operator[u]
        if o < 0 or not handed.makes[o] or _row_at(units, rows, o, device) != row:
            continue
        group = units.group[u]
        samples = units.samples[u] / (units.group_start[group + 1] - units.group_start[group])
        n_summed = 0
        for e in range(handed.output_start[o], handed.output_start[o + 1]):
            t = handed.output[e]
            known = False
            if handed.sum_group[t] >= 0:
                for k in range(n_summed):
                    known |= summed[k] == handed.sum_group[t]
                if not known:
                    if n_summed == len(summed):
                        grown = np.empty(2 * n_summed, np.int64)
                        grown[:n_summed] = summed
                        summed = grown
                    summed[n_summed] = handed.sum_group[t]
                    n_summed += 1
            amount = handed.nbytes[t, 0] + handed.nbytes[t, 1] * samples
            if known or amount == 0:  # added to another of the same sum as it was made
                continue
            readers = 0
            for f in range(handed.consumer_start[t], handed.consumer_start[t + 1]):
                reader = handed.consumer[f]
                at = _row_at(units, rows, reader, device) if handed.reads[reader] else -1
                if at >= 0:
                    _until(store, at)
                    readers += 1
            if readers:
                _since(store, row)
                _close(store, device, amount, True)


@njit(cache=True)
def _fill(
    store: _Store, units: Units, rows: Rows, tasks: Tasks, sends: Sends, nbytes: UnitBytes, handed: HandedOn,
    releases: Ints, release_start: Ints, again_of: Ints, by_operator: bool,
) -> None:  # fmt: skip
    _activations(store, units, rows, nbytes, releases, release_start, again_of)
    _buffers(store, units, rows, tasks, sends, releases, release_start)
    if by_operator:
        _handed_on(store, units, rows, handed)


@njit(cache=True)
def holds_of(
    units: Units, rows: Rows, tasks: Tasks, sends: Sends, nbytes: UnitBytes, handed: HandedOn, forward_of: Ints,
    stages: int,
) -> Holds:  # fmt: skip
    """All that is held beside what is held all the time. forward_of: [operators]."""
    operators, count = len(forward_of), len(units.stage)
    mirror_start = np.zeros(operators + 1, np.int64)
    for o in range(operators):
        if forward_of[o] >= 0:
            mirror_start[forward_of[o] + 1] += 1
    for o in range(operators):
        mirror_start[o + 1] += mirror_start[o]
    at, mirror = mirror_start[:-1].copy(), np.empty(mirror_start[operators], np.int64)
    for o in range(operators):
        if forward_of[o] >= 0:
            mirror[at[forward_of[o]]] = o
            at[forward_of[o]] += 1
    release_start = np.zeros(count + 1, np.int64)
    for u in range(count):
        k = 0
        while units.kind[u] == F and _backwards(units, forward_of, mirror_start, mirror, u, k) >= 0:
            k += 1
        release_start[u + 1] = release_start[u] + k
    releases = np.empty(release_start[count], np.int64)
    for u in range(count):
        for e in range(release_start[u], release_start[u + 1]):
            releases[e] = _backwards(units, forward_of, mirror_start, mirror, u, e - release_start[u])
    again_of = np.full(stages, -1, np.int64)
    by_operator = False
    for u in range(count):
        by_operator |= units.operator[u] >= 0
        if units.again[u]:
            again_of[units.stage[u]] = u
    store = _store(False, 0, 0, 0)
    _fill(store, units, rows, tasks, sends, nbytes, handed, releases, release_start, again_of, by_operator)
    count_of = store.counts
    store = _store(True, count_of[HOLDS], count_of[SINCE], count_of[UNTIL])
    _fill(store, units, rows, tasks, sends, nbytes, handed, releases, release_start, again_of, by_operator)
    return Holds(
        store.device, store.nbytes, store.since_start, store.since, store.from_end, store.until_start, store.until
    )


@njit(cache=True)
def curves_of(holds: Holds, start_s: Floats, end_s: Floats, static: Floats) -> tuple[Floats, Ints, Floats, Floats]:
    """(largest bytes of every device, where the curves begin [devices + 1], times, bytes from each on).

    What is freed at an instant is freed before anything new is held. What is held for no time at all (by operators
    that take none) is a peak between the two. static: bytes held all the time, [devices].
    """
    devices, count = len(static), len(holds.device)
    begin = np.zeros(devices + 1, np.int64)
    for h in range(count):
        begin[holds.device[h] + 1] += 2
    for d in range(devices):
        begin[d + 1] += begin[d] + 1  # and the instant 0
    instant, change = np.empty(begin[devices]), np.empty(begin[devices])
    spike = np.zeros(begin[devices], np.bool_)
    at = begin[:-1].copy()
    for d in range(devices):
        instant[at[d]], change[at[d]] = 0.0, 0.0
        at[d] += 1
    for h in range(count):
        since, until = np.inf, 0.0
        for e in range(holds.since_start[h], holds.since_start[h + 1]):
            since = min(since, end_s[holds.since[e]] if holds.from_end[h] else start_s[holds.since[e]])
        for e in range(holds.until_start[h], holds.until_start[h + 1]):
            until = max(until, end_s[holds.until[e]])
        k = at[holds.device[h]]
        at[holds.device[h]] += 2
        instant[k], instant[k + 1] = since, until
        change[k], change[k + 1] = holds.nbytes[h], -holds.nbytes[h]
        if not until > since:
            instant[k + 1] = since
            spike[k] = spike[k + 1] = True
    peak = static.copy()
    curve_start = np.zeros(devices + 1, np.int64)
    times, curve = np.empty(2 * begin[devices]), np.empty(2 * begin[devices])
    n = 0
    for d in range(devices):
        order = np.argsort(instant[begin[d] : begin[d + 1]]) + begin[d]
        level = static[d]
        k = 0
        while k < len(order):
            now = instant[order[k]]
            taken, freed, highest = 0.0, 0.0, 0.0
            while k < len(order) and instant[order[k]] == now:
                e = order[k]
                if spike[e]:
                    highest = max(highest, change[e])
                elif change[e] > 0:
                    taken += change[e]
                else:
                    freed -= change[e]
                k += 1
            least = level - freed
            level = least + taken
            if least + highest > level:
                times[n], curve[n] = now, least + highest
                peak[d] = max(peak[d], curve[n])
                n += 1
            times[n], curve[n] = now, level
            peak[d] = max(peak[d], level)
            n += 1
        curve_start[d + 1] = n
    return peak, curve_start, times[:n], curve[:n]
