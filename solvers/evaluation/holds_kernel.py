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

from solvers.evaluation.tasks import F, Holds, Rows, Sends, Tasks, U, Units
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit

HOLDS, SINCE, UNTIL = range(3)


class UnitBytes(NamedTuple):
    """Bytes that a task of every unit holds, [units]. saved: activations for the backward; rerun_inputs: what a stage
    that recomputes reads of its own devices' stages; working: workspace; until_next: what an F saves for the I that
    follows alone, and what an I leaves for the W that follows (`parted_kernel`)."""

    saved: Floats
    rerun_inputs: Floats
    working: Floats
    until_next: Floats


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
    """Columns of `Holds` as they are written, with room for all that may come, and how many of each there are."""

    counts: Ints
    device: Ints
    nbytes: Floats
    since_start: Ints
    since: Ints
    from_end: Bools
    until_start: Ints
    until: Ints


@njit(cache=True)
def _store(most: Ints) -> _Store:
    """Room for most[what] of what HOLDS, SINCE, UNTIL name."""
    holds = most[HOLDS]
    return _Store(
        np.zeros(3, np.int64), np.empty(holds, np.int64), np.empty(holds), np.zeros(holds + 1, np.int64),
        np.empty(most[SINCE], np.int64), np.empty(holds, np.bool_), np.zeros(holds + 1, np.int64),
        np.empty(most[UNTIL], np.int64),
    )  # fmt: skip


@njit(cache=True, inline="always")
def _since(store: _Store, task: int) -> None:
    counts = store.counts
    store.since[counts[SINCE]] = task
    counts[SINCE] += 1


@njit(cache=True, inline="always")
def _until(store: _Store, task: int) -> None:
    counts = store.counts
    store.until[counts[UNTIL]] = task
    counts[UNTIL] += 1


@njit(cache=True, inline="always")
def _close(store: _Store, device: int, nbytes: float, from_end: bool) -> None:
    """A hold of the instants written since the last one."""
    counts = store.counts
    at = counts[HOLDS]
    counts[HOLDS] = at + 1
    store.device[at], store.nbytes[at], store.from_end[at] = device, nbytes, from_end
    store.since_start[at + 1], store.until_start[at + 1] = counts[SINCE], counts[UNTIL]


@njit(cache=True)
def _most(
    units: Units, rows: Rows, tasks: Tasks, sends: Sends, handed: HandedOn, release_start: Ints, by_operator: bool
) -> Ints:
    """Bounds on what HOLDS, SINCE, UNTIL count."""
    compute, longest = len(rows.unit), 1
    for u in range(len(release_start) - 1):
        longest = max(longest, 1 + release_start[u + 1] - release_start[u])
    transfers = len(sends.transfer)
    n = np.zeros(3, np.int64)
    n[HOLDS] = 4 * compute + transfers + len(sends.device)
    n[SINCE] = 4 * compute + transfers + len(sends.maker)
    n[UNTIL] = (2 * longest + 2) * compute + longest * len(tasks.reader) + transfers
    if by_operator:
        for row in range(compute):
            o = units.operator[rows.unit[row]]
            if o >= 0:
                made = handed.output_start[o + 1] - handed.output_start[o]
                n[HOLDS] += made
                n[SINCE] += made
                for e in range(handed.output_start[o], handed.output_start[o + 1]):
                    t = handed.output[e]
                    n[UNTIL] += handed.consumer_start[t + 1] - handed.consumer_start[t]
    return n


@njit(cache=True)
def _releases(units: Units, mirror_start: Ints, mirror: Ints) -> tuple[Ints, Ints]:
    """(start, units): the units of the backward of forward unit u are units[start[u]:start[u + 1]]."""
    stage, kind, operator, home_start, home = units.stage, units.kind, units.operator, units.home_start, units.home
    count = len(stage)
    start, released, n = np.zeros(count + 1, np.int64), np.empty(3 * count + len(home), np.int64), 0
    for u in range(count):
        v, o = u + 1, operator[u]
        while kind[u] == F and o < 0 and v < count and stage[v] == stage[u]:
            if kind[v] != U:
                released[n] = v
                n += 1
            v += 1
        for e in range(mirror_start[o], mirror_start[o + 1]) if kind[u] == F and o >= 0 else range(0):
            for h in range(home_start[mirror[e]], home_start[mirror[e] + 1]):
                v = home[h]
                if stage[v] == stage[u] and kind[v] != U and kind[v] != F:
                    released[n] = v
                    n += 1
        start[u + 1] = n
    return start, released[:n]


@njit(cache=True)
def _lets_go(units: Units, rows: Rows, releases: Ints, release_start: Ints) -> tuple[Ints, Ints]:
    """(start [rows + 1], rows): what row r holds or reads is kept until the last of rows[start[r]:start[r + 1]] has
    ended: a forward keeps it until the last backward of its micro-batch, any other task to its own end.

    Of tasks that a device takes one after the other only the last in its order counts.
    """
    of_slot, slot, unit, device, ordered = rows.of_slot, units.slot, rows.unit, rows.device, rows.ordered
    count = len(unit)
    place = np.empty(count, np.int64)  # of every row among the tasks of its unit
    for u in range(len(slot) - 1):
        for at in range(slot[u], slot[u + 1]):
            place[of_slot[at]] = at - slot[u]
    most = 1
    for u in range(len(release_start) - 1):
        most = max(most, 1 + release_start[u + 1] - release_start[u])
    start, last, n = np.zeros(count + 1, np.int64), np.empty(most * count, np.int64), 0
    for row in range(count):
        u, alone = unit[row], ordered[device[row]]
        last[n] = row
        n += 1
        for e in range(release_start[u], release_start[u + 1]):
            later = of_slot[slot[releases[e]] + place[row]]
            if alone:
                last[n - 1] = max(last[n - 1], later)
            else:
                last[n] = later
                n += 1
        start[row + 1] = n
    return start, last[:n]


@njit(cache=True)
def _activations(
    store: _Store, units: Units, rows: Rows, nbytes: UnitBytes, ends_start: Ints, ends: Ints, again_of: Ints
) -> None:
    """What tasks hold by themselves. ends_start, ends: see `_lets_go`. again_of: the unit of each stage that runs its
    forward again, or -1."""
    counts, device_of, held, since_start, since, from_end, until_start, until = store
    unit, device, of_slot, slot, stage = rows.unit, rows.device, rows.of_slot, units.slot, units.stage
    n, n_since, n_until = counts
    slot_of = np.empty(len(of_slot), np.int64)
    for at in range(len(of_slot)):
        slot_of[of_slot[at]] = at
    again_row = np.full(len(unit), -1, np.int64)
    for u in range(len(stage)):
        anew = again_of[stage[u]]
        for at in range(slot[u + 1] - slot[u] if anew >= 0 and nbytes.saved[u] > 0 else 0):
            again_row[of_slot[slot[u] + at]] = of_slot[slot[anew] + at]
    for which in range(4):
        amounts = nbytes.saved if which == 0 else nbytes.rerun_inputs if which == 1 else nbytes.working
        amounts = nbytes.until_next if which == 3 else amounts
        for row in range(len(unit) if amounts.any() else 0):
            amount = amounts[unit[row]]
            if amount <= 0:
                continue
            since[n_since] = again_row[row] if which == 0 and again_row[row] >= 0 else row
            n_since += 1
            if which >= 2:
                u = unit[row]
                until[n_until] = row if which == 2 else of_slot[slot[u + 1] + slot_of[row] - slot[u]]
                n_until += 1
            else:
                for e in range(ends_start[row], ends_start[row + 1]):
                    until[n_until] = ends[e]
                    n_until += 1
            device_of[n], held[n], from_end[n] = device[row], amount, False
            since_start[n + 1], until_start[n + 1] = n_since, n_until
            n += 1
    counts[HOLDS], counts[SINCE], counts[UNTIL] = n, n_since, n_until


@njit(cache=True)
def _buffers(store: _Store, rows: Rows, tasks: Tasks, sends: Sends, ends_start: Ints, ends: Ints) -> None:
    """What is received, until its readers let it go, and what is sent. ends_start, ends: see `_lets_go`."""
    counts, device_of, held, since_start, since, from_end, until_start, until = store
    reader_start, reader, to_device, nbytes, ordered = (
        tasks.reader_start, tasks.reader, tasks.to_device, tasks.nbytes, rows.ordered,
    )  # fmt: skip
    sender, sent_bytes, transfer_start, transfer, maker_start, maker = (
        sends.device, sends.nbytes, sends.transfer_start, sends.transfer, sends.maker_start, sends.maker,
    )  # fmt: skip
    n, n_since, n_until = counts
    for s in range(len(sender)):
        for e in range(transfer_start[s], transfer_start[s + 1]):
            task = transfer[e]
            if reader_start[task] == reader_start[task + 1]:
                continue  # the sender's half
            since[n_since] = task
            n_since += 1
            begin = n_until
            for f in range(reader_start[task], reader_start[task + 1]):
                for g in range(ends_start[reader[f]], ends_start[reader[f] + 1]):
                    if n_until > begin and ordered[to_device[task]]:
                        until[begin] = max(until[begin], ends[g])
                        continue
                    until[n_until] = ends[g]
                    n_until += 1
            device_of[n], held[n], from_end[n] = to_device[task], nbytes[task], False
            since_start[n + 1], until_start[n + 1] = n_since, n_until
            n += 1
        for e in range(maker_start[s], maker_start[s + 1]):
            since[n_since] = maker[e]
            n_since += 1
        for e in range(transfer_start[s], transfer_start[s + 1]):
            until[n_until] = transfer[e]
            n_until += 1
        device_of[n], held[n], from_end[n] = sender[s], sent_bytes[s], True
        since_start[n + 1], until_start[n + 1] = n_since, n_until
        n += 1
    counts[HOLDS], counts[SINCE], counts[UNTIL] = n, n_since, n_until


@njit(cache=True)
def _row_at(units: Units, rows: Rows, operator: int, device: int) -> int:
    """The task of a single operator on a device; -1 if there is none."""
    row = -1
    for h in range(units.home_start[operator], units.home_start[operator + 1]):
        u = units.home[h]
        if units.operator[u] < 0:
            continue
        begin, end = units.group_start[units.group[u]], units.group_start[units.group[u] + 1]
        for q in range(begin, end):
            if units.group_device[q] == device:
                row = rows.of_slot[units.slot[u] + q - begin]
    return row


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
    release_start, releases = _releases(units, mirror_start, mirror)
    again_of = np.full(stages, -1, np.int64)
    by_operator = False
    for u in range(count):
        by_operator |= units.operator[u] >= 0
        if units.again[u]:
            again_of[units.stage[u]] = u
    store = _store(_most(units, rows, tasks, sends, handed, release_start, by_operator))
    ends_start, ends = _lets_go(units, rows, releases, release_start)
    _activations(store, units, rows, nbytes, ends_start, ends, again_of)
    _buffers(store, rows, tasks, sends, ends_start, ends)
    if by_operator:
        _handed_on(store, units, rows, handed)
    held, n_since, n_until = store.counts
    return Holds(
        store.device[:held], store.nbytes[:held], store.since_start[: held + 1], store.since[:n_since],
        store.from_end[:held], store.until_start[: held + 1], store.until[:n_until],
    )  # fmt: skip


class _Changes(NamedTuple):
    """Which holds begin and end at every instant, as chains: the first, and after each the next, -1 at the end."""

    begin: Ints
    """[instants] the first hold that begins"""
    following: Ints
    """[holds] the next that begins at the same instant"""
    end: Ints
    """[instants] the first hold that ends after it was held for some time"""
    ending: Ints
    """[holds] the next that ends at the same instant"""
    lasts: Bools
    """[holds] whether it is held for any time"""


@njit(cache=True)
def _changes(holds: Holds, first: Ints, last: Ints) -> _Changes:
    """When holds begin and end. first, last: instants of tasks."""
    count, instants = len(holds.device), np.max(last) + 1 if len(last) else 1
    begin, end = np.full(instants, -1, np.int64), np.full(instants, -1, np.int64)
    following, ending, lasts = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.bool_)
    since_start, since_of, until_start, until_of, from_end = (
        holds.since_start, holds.since, holds.until_start, holds.until, holds.from_end,
    )  # fmt: skip
    for h in range(count - 1, -1, -1):  # so that chains are in the order of the holds
        begins, ends = instants, 0
        for e in range(since_start[h], since_start[h + 1]):
            begins = min(begins, last[since_of[e]] if from_end[h] else first[since_of[e]])
        for e in range(until_start[h], until_start[h + 1]):
            ends = max(ends, last[until_of[e]])
        lasts[h] = ends > begins
        following[h], begin[begins] = begin[begins], h
        if ends > begins:
            ending[h], end[ends] = end[ends], h
    return _Changes(begin, following, end, ending, lasts)


@njit(cache=True)
def _levels(
    holds: Holds, first: Ints, last: Ints, static: Floats, points: Ints, bytes_at: Floats
) -> tuple[Floats, int]:
    """(largest bytes of every device, how many points its curves have). points: [2, room] the device and the
    instant of each, bytes_at: its bytes; in the order of time; without room none are written."""
    begin, following, end, ending, lasts = _changes(holds, first, last)
    devices, device_of, nbytes, room = len(static), holds.device, holds.nbytes, len(bytes_at)
    level, peak = static.copy(), static.copy()
    taken, freed, highest = np.zeros(devices), np.zeros(devices), np.zeros(devices)
    touched, is_touched, count, n = np.arange(devices), np.ones(devices, np.bool_), devices, 0
    for i in range(len(begin)):
        h = begin[i]
        while h >= 0:
            d = device_of[h]
            if lasts[h]:
                taken[d] += nbytes[h]
            else:
                highest[d] = max(highest[d], nbytes[h])
            if not is_touched[d]:
                is_touched[d] = True
                touched[count] = d
                count += 1
            h = following[h]
        h = end[i]
        while h >= 0:
            d = device_of[h]
            freed[d] += nbytes[h]
            if not is_touched[d]:
                is_touched[d] = True
                touched[count] = d
                count += 1
            h = ending[h]
        for k in range(count):
            d = touched[k]
            least = level[d] - freed[d]
            level[d] = least + taken[d]
            if least + highest[d] > level[d]:
                peak[d] = max(peak[d], least + highest[d])
                if room:
                    points[0, n], points[1, n], bytes_at[n] = d, i, least + highest[d]
                n += 1
            peak[d] = max(peak[d], level[d])
            if room:
                points[0, n], points[1, n], bytes_at[n] = d, i, level[d]
            n += 1
            taken[d] = freed[d] = highest[d] = 0.0
            is_touched[d] = False
        count = 0
    return peak, n


@njit(cache=True)
def peaks_of(holds: Holds, first: Ints, last: Ints, static: Floats) -> Floats:
    """Largest bytes of every device, [devices]: see `curves_of`."""
    return _levels(holds, first, last, static, np.empty((2, 0), np.int64), np.empty(0))[0]


@njit(cache=True)
def curves_of(
    holds: Holds, first: Ints, last: Ints, end_s: Floats, static: Floats
) -> tuple[Floats, Ints, Floats, Floats]:
    """(largest bytes of every device, where the curves begin [devices + 1], times, bytes from each on).

    What is freed at an instant is freed before anything new is held. What is held for no time at all (by operators
    that take none) is a peak between the two. first, last: instants at which tasks start and end, from `run_tasks`.
    static: bytes held all the time, [devices].
    """
    devices = len(static)
    room = 4 * len(holds.device) + devices
    points, bytes_at = np.empty((2, room), np.int64), np.empty(room)
    peak, n = _levels(holds, first, last, static, points, bytes_at)
    time_s = np.zeros(np.max(last) + 1 if len(last) else 1)
    for task in range(len(last)):
        time_s[last[task]] = end_s[task]
    time_s[0] = 0.0
    start = np.zeros(devices + 1, np.int64)
    for k in range(n):
        start[points[0, k] + 1] += 1
    for d in range(devices):
        start[d + 1] += start[d]
    at, times, curve = start[:-1].copy(), np.empty(n), np.empty(n)
    for k in range(n):
        to = at[points[0, k]]
        times[to], curve[to] = time_s[points[1, k]], bytes_at[k]
        at[points[0, k]] = to + 1
    return peak, start, times, curve
