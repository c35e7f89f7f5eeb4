"""Which messages leave their devices, which of them travel together, and what waits on the same device."""

from __future__ import annotations

import numpy as np
from numba import njit

from solvers.evaluation.tasks import Bundles, Floats, Ints, U, Units


@njit(cache=True)
def longer(array: Ints) -> Ints:
    """Twice as long, with the same items in front."""
    grown = np.empty(2 * len(array) + 16, array.dtype)
    grown[: len(array)] = array
    return grown


@njit(cache=True)
def _copy_at(home_start: Ints, home: Ints, group_of: Ints, operator: int, group: int) -> int:
    """The unit that runs an operator on a group of devices; -1 if none does."""
    found = -1
    for h in range(home_start[operator], home_start[operator + 1]):
        if group_of[home[h]] == group:
            found = home[h]
    return found


@njit(cache=True)
def through_host(units: Units, source: int, target: int, blocking: bool) -> bool:
    """Whether two units are calls of different stages on one device: a call takes its inputs from the host's
    memory and leaves its outputs there (Tarnawski et al. 2020, section 6)."""
    calls = blocking and units.call[source] and units.call[target]
    return bool(calls and units.group[source] == units.group[target] and units.stage[source] != units.stage[target])


@njit(cache=True)
def _insert(row: Ints, count: int, unit: int, place: Ints) -> int:
    """Insert a unit into row[:count], ascending by place, then number, once; the new count."""
    for i in range(count):
        if row[i] == unit:
            return count
    i = count
    while i > 0:
        other = row[i - 1]
        if place[other] < place[unit] or (place[other] == place[unit] and other < unit):
            break
        row[i] = other
        i -= 1
    row[i] = unit
    return count + 1


@njit(cache=True)
def routes_of(
    units: Units,
    maker_start: Ints,
    maker: Ints,
    reader_start: Ints,
    reader: Ints,
    ends: Ints,
    nbytes: Floats,
    stated_s: Floats,
    latencies: Ints,
    stated: bool,
    by_operator: bool,
    blocking: bool,
) -> tuple[Bundles, Ints]:
    """(what is sent, pairs of units on the same devices of which the second waits for the first).

    maker_start ... ends: see `columns.GraphColumns`. nbytes: of messages, [messages, 2]; stated_s: their stated
    seconds per sample, if stated; latencies: how many each pays if it is sent. by_operator: units are single
    operators; then messages travel together only if the same operators make and read them, so that what is one
    transfer does not hang on the placement.
    """
    messages, count_units = len(ends), len(units.stage)
    stage_of, home, home_start, place_of, group_of, kind_of, place_group, group_start = (
        units.stage, units.home, units.home_start, units.place, units.group, units.kind, units.place_group,
        units.group_start,
    )  # fmt: skip
    most_readers = 1
    for m in range(messages):
        copies = 0
        for e in range(reader_start[m], reader_start[m + 1]):
            copies += home_start[reader[e] + 1] - home_start[reader[e]]
        most_readers = max(most_readers, copies, maker_start[m + 1] - maker_start[m])
    target = np.empty(most_readers + 1, np.int64)
    source = np.empty(most_readers + 1, np.int64)
    places = np.empty(most_readers + 1, np.int64)
    remote = np.zeros((most_readers, most_readers) if messages else (1, 1), np.bool_)
    readers = np.empty(most_readers + 1, np.int64)

    source_start, target_start = np.zeros(17, np.int64), np.zeros(17, np.int64)
    sources, targets = np.empty(64, np.int64), np.empty(64, np.int64)
    total, seconds = np.zeros((16, 2)), np.zeros(16)
    tensors, end_of, following = np.zeros(16, np.int64), np.zeros(16, np.int64), np.full(16, -1, np.int64)
    table = np.full(4 * messages + 64, -1, np.int64)
    count = 0
    local, pairs = np.empty(64, np.int64), 0
    for m in range(messages):
        low, high = maker_start[m], maker_start[m + 1]
        if not by_operator:
            stage, inside = stage_of[home[home_start[maker[low]]]], True
            for e in range(low, high):
                for h in range(home_start[maker[e]], home_start[maker[e] + 1]):
                    inside &= stage_of[home[h]] == stage
            for e in range(reader_start[m], reader_start[m + 1]):
                for h in range(home_start[reader[e]], home_start[reader[e] + 1]):
                    inside &= stage_of[home[h]] == stage
            if inside:
                continue
        n_places = 0
        for e in range(low, high):
            place = place_of[home[home_start[maker[e]]]]
            known = False
            for i in range(n_places):
                known |= places[i] == place
            if not known:
                places[n_places] = place
                n_places += 1
        n_readers = 0
        for e in range(reader_start[m], reader_start[m + 1]):
            for h in range(home_start[reader[e]], home_start[reader[e] + 1]):
                unit = home[h]
                readers[n_readers] = unit
                group = group_of[unit]
                everywhere = True
                for f in range(low, high):
                    everywhere &= _copy_at(home_start, home, group_of, maker[f], group) >= 0
                for i in range(n_places):
                    place = places[i]
                    # Replicas that share micro-batches otherwise than those of the place, the same devices, need of
                    # each other the samples that they take over.
                    anew = place_group[place] == group and place != place_of[unit] and kind_of[unit] != U
                    sends = anew and group_start[group + 1] - group_start[group] > 1
                    for f in range(low, high if blocking else low):
                        first = home[home_start[maker[f]]]
                        sends |= place_of[first] == place and through_host(units, first, unit, True)
                    if not sends and place_group[place] != group and not everywhere:
                        sends = True
                    remote[i, n_readers] = sends
                    if sends:
                        continue
                    for f in range(low, high):
                        near = _copy_at(home_start, home, group_of, maker[f], group)
                        if near >= 0 and near != unit:
                            if 2 * pairs + 2 > len(local):
                                local = longer(local)
                            local[2 * pairs], local[2 * pairs + 1] = near, unit
                            pairs += 1
                n_readers += 1
        for _ in range(n_places):
            i = -1  # of the places that are left the first
            for k in range(n_places):
                if places[k] >= 0 and (i < 0 or places[k] < places[i]):
                    i = k
            place, places[i] = places[i], -1
            n_target = 0
            for k in range(n_readers):
                if remote[i, k]:
                    n_target = _insert(target, n_target, readers[k], place_of)
            if n_target == 0:
                continue
            n_source = 0
            for f in range(low, high):
                first = home[home_start[maker[f]]]
                if place_of[first] == place:
                    n_source = _insert(source, n_source, first, place_of)
            group_end = ends[m] if by_operator else -1
            key = group_end + 7
            for k in range(n_source):
                key = (key * 1000003 + source[k]) & 0xFFFFFFFFFFF
            for k in range(n_target):
                key = (key * 1000003 + target[k]) & 0xFFFFFFFFFFF
            key %= len(table)
            b = table[key]
            while b >= 0:
                same = end_of[b] == group_end
                same &= source_start[b + 1] - source_start[b] == n_source
                same &= target_start[b + 1] - target_start[b] == n_target
                if same:
                    for k in range(n_source):
                        same &= sources[source_start[b] + k] == source[k]
                    for k in range(n_target):
                        same &= targets[target_start[b] + k] == target[k]
                if same:
                    break
                b = following[b]
            if b < 0:
                b = count
                count += 1
                if count == len(tensors):
                    tensors, end_of, following = longer(tensors), longer(end_of), longer(following)
                    grown, seconds_grown = np.zeros((len(tensors), 2)), np.zeros(len(tensors))
                    grown[: len(total)], seconds_grown[: len(total)] = total, seconds
                    total, seconds = grown, seconds_grown
                if count + 1 >= len(source_start):
                    source_start, target_start = longer(source_start), longer(target_start)
                while source_start[b] + n_source > len(sources):
                    sources = longer(sources)
                while target_start[b] + n_target > len(targets):
                    targets = longer(targets)
                sources[source_start[b] : source_start[b] + n_source] = source[:n_source]
                targets[target_start[b] : target_start[b] + n_target] = target[:n_target]
                source_start[b + 1] = source_start[b] + n_source
                target_start[b + 1] = target_start[b] + n_target
                total[b, 0] = total[b, 1] = seconds[b] = 0.0
                tensors[b], end_of[b], following[b] = 0, group_end, table[key]
                table[key] = b
            total[b, 0] += nbytes[m, 0]
            total[b, 1] += nbytes[m, 1]
            tensors[b] += latencies[m]
            if stated:
                seconds[b] += stated_s[m]
    bundles = Bundles(
        source_start[: count + 1],
        sources[: source_start[count]],
        target_start[: count + 1],
        targets[: target_start[count]],
        total[:count],
        seconds[:count],
        tensors[:count],
    )
    return bundles, _distinct(local[: 2 * pairs].copy().reshape(-1, 2), count_units)


@njit(cache=True)
def _distinct(pairs: Ints, units: int) -> Ints:
    """Rows without repetitions, ascending."""
    keys = np.unique(pairs[:, 0] * units + pairs[:, 1])
    found = np.empty((len(keys), 2), np.int64)
    for i in range(len(keys)):
        found[i, 0], found[i, 1] = keys[i] // units, keys[i] % units
    return found
