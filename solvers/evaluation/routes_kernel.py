"""Which messages leave their devices, which of them travel together, and what waits on the same device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.evaluation.tasks import Bundles, Messages, U, Units
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit


@njit(cache=True)
def longer(array: Ints) -> Ints:
    """Twice as long, with the same items in front."""
    grown = np.empty(2 * len(array) + 16, array.dtype)
    grown[: len(array)] = array
    return grown


@njit(cache=True, inline="always")
def _inside_one_stage(units: Units, ops: Ints, low: int, high: int, stage: int) -> bool:
    """Whether operators ops[low:high] all run in one stage and nowhere else."""
    for e in range(low, high):
        for h in range(units.home_start[ops[e]], units.home_start[ops[e] + 1]):
            if units.stage[units.home[h]] != stage:
                return False
    return True


@njit(cache=True, inline="always")
def _copy_at(units: Units, operator: int, group: int) -> int:
    """The unit that runs an operator on a group of devices; -1 if none does."""
    unit = -1
    for h in range(units.home_start[operator], units.home_start[operator + 1]):
        if units.group[units.home[h]] == group:
            unit = units.home[h]
    return unit


@njit(cache=True, inline="always")
def through_host(units: Units, source: int, target: int, blocking: bool) -> bool:
    """Whether two units are calls of different stages on one device: a call takes its inputs from the host's
    memory and leaves its outputs there (Tarnawski et al. 2020, section 6)."""
    calls = blocking and units.call[source] and units.call[target]
    return bool(calls and units.group[source] == units.group[target] and units.stage[source] != units.stage[target])


@njit(cache=True, inline="always")
def shared_anew(units: Units, place: int, target: int) -> bool:
    """Whether the replicas that run ``target`` share its micro-batches otherwise than those of ``place``, the same
    devices: then each sends the others the samples they take over."""
    group = units.place_group[place]
    several = units.group_start[group + 1] - units.group_start[group] > 1
    same = group == units.group[target] and place != units.place[target]
    return bool(several and same and units.kind[target] != U)


@njit(cache=True, inline="always")
def _insert(row: Ints, count: int, unit: int, units: Units) -> int:
    """Insert a unit into row[:count], ascending by place, then number, once; the new count."""
    for i in range(count):
        if row[i] == unit:
            return count
    i = count
    while i > 0:
        other = row[i - 1]
        if units.place[other] < units.place[unit] or (units.place[other] == units.place[unit] and other < unit):
            break
        row[i] = other
        i -= 1
    row[i] = unit
    return count + 1


class Routing(NamedTuple):
    """A message, and what determines its routes; scratch, filled in again for each message."""

    places: Ints
    """[n] of those that make it"""
    readers: Ints
    """[n] units that read it"""
    remote: Bools
    """[places, readers] whether it is sent from the one to the other"""
    own: Bools
    """[places, readers] whether a call that reads it makes a part of it itself, and fetches that of other calls"""
    source: Ints
    """[n] units of one place that send it"""
    target: Ints
    """[n] units that it is sent to from there"""


@njit(cache=True, inline="always")
def _places(units: Units, makers: Ints, places: Ints) -> int:
    """Fill in the places of those that make a message; how many there are."""
    count = 0
    for maker in makers:
        place = units.place[units.home[units.home_start[maker]]]
        known = False
        for i in range(count):
            known |= places[i] == place
        if not known:
            places[count] = place
            count += 1
    return count


@njit(cache=True, inline="always")
def _sends(units: Units, makers: Ints, place: int, unit: int, everywhere: bool, blocking: bool) -> bool:
    """Whether what is made at a place is sent to a unit that reads it. everywhere: whether all of it is made on the
    unit's devices too."""
    if shared_anew(units, place, unit):
        return True
    for maker in makers:
        home = units.home[units.home_start[maker]]
        if units.place[home] == place and through_host(units, home, unit, blocking):
            return True
    return bool(units.place_group[place] != units.group[unit] and not everywhere)


@njit(cache=True, inline="always")
def _ends_of(
    units: Units, makers: Ints, place: int, at: int, n_readers: int, stage: int, route: Routing
) -> tuple[int, int]:
    """Fill in who sends a message from a place, the ``at``-th of its places, and to whom; how many of each. stage: of
    calls there that make a part of it themselves, which are sent what the others make; -1: the readers but these."""
    n_source = n_target = 0
    for k in range(n_readers):
        own_stage = units.stage[route.readers[k]] if route.own[at, k] else -1
        if route.remote[at, k] and own_stage == stage:
            n_target = _insert(route.target, n_target, route.readers[k], units)
    if n_target:
        for maker in makers:
            home = units.home[units.home_start[maker]]
            if units.place[home] == place and units.stage[home] != stage:
                n_source = _insert(route.source, n_source, home, units)
    return n_source, n_target


@njit(cache=True, inline="always")
def _stage_apart(units: Units, route: Routing, at: int, k: int) -> int:
    """The stage of the ``k``-th reader, if it makes a part of what it reads and is the first of its stage that does,
    else -2, which is no stage; -1 for ``k`` of -1."""
    first = k < 0 or route.own[at, k]
    stage = -1 if k < 0 else units.stage[route.readers[k]]
    for earlier in range(k):
        first &= not (route.own[at, earlier] and units.stage[route.readers[earlier]] == stage)
    return int(stage) if first else -2


@njit(cache=True, inline="always")
def _makes_a_part(units: Units, makers: Ints, place: int, unit: int) -> bool:
    """Whether the stage of a call at this place makes some of a message there, and another stage makes some too."""
    own = other = False
    for maker in makers:
        home = units.home[units.home_start[maker]]
        if units.place[home] == place:
            other |= through_host(units, home, unit, True)
            own |= units.stage[home] == units.stage[unit]
    return bool(own and other)


@njit(cache=True)
def _more(total: Floats, seconds: Floats) -> tuple[Floats, Floats]:
    """Twice as many rows, the new ones 0."""
    rows, ones = np.zeros((2 * len(seconds), 2)), np.zeros(2 * len(seconds))
    rows[: len(seconds)], ones[: len(seconds)] = total, seconds
    return rows, ones


@njit(cache=True)
def _hash(end: int, source: Ints, target: Ints, size: int) -> int:
    key = end + 7
    for unit in source:
        key = (key * 1000003 + unit) & 0xFFFFFFFFFFF
    for unit in target:
        key = (key * 1000003 + unit) & 0xFFFFFFFFFFF
    return int(key % size)


@njit(cache=True)
def _same(row: Ints, start: int, end: int, items: Ints) -> bool:
    """Whether row[start:end] are these items."""
    if end - start != len(items):
        return False
    same = True
    for k in range(len(items)):
        same &= row[start + k] == items[k]
    return bool(same)


@njit(cache=True)
def _routing(units: Units, messages: Messages) -> Routing:
    """Room for the message with the most makers or readers."""
    home_start, reader_start, maker_start = units.home_start, messages.reader_start, messages.maker_start
    most = 1
    for m in range(len(messages.latencies)):
        copies = 0
        for e in range(reader_start[m], reader_start[m + 1]):
            copies += home_start[messages.reader[e] + 1] - home_start[messages.reader[e]]
        most = max(most, copies, maker_start[m + 1] - maker_start[m])
    return Routing(
        np.empty(most, np.int64), np.empty(most, np.int64), np.zeros((most, most), np.bool_),
        np.zeros((most, most), np.bool_), np.empty(most, np.int64), np.empty(most, np.int64),
    )  # fmt: skip


@njit(cache=True)
def routes_of(units: Units, messages: Messages, by_operator: bool, blocking: bool) -> tuple[Bundles, Ints]:
    """(what is sent, pairs of units on the same devices of which the second waits for the first).

    by_operator: units are single operators; then messages travel together only if the same operators make and read
    them, so that what is one transfer does not hang on the placement. blocking: calls fetch their inputs from the host.
    """
    maker_start, maker, reader_start, reader, ends, nbytes, stated_s, latencies = messages
    stated, route = len(stated_s) > 0, _routing(units, messages)
    places, readers, remote = route.places, route.readers, route.remote
    source_start, target_start = np.zeros(17, np.int64), np.zeros(17, np.int64)
    sources, targets = np.empty(64, np.int64), np.empty(64, np.int64)
    total, seconds = np.zeros((16, 2)), np.zeros(16)
    tensors, end_of, following = np.zeros(16, np.int64), np.zeros(16, np.int64), np.full(16, -1, np.int64)
    table = np.full(4 * len(latencies) + 64, -1, np.int64)  # the first bundle of every hash
    count = 0
    local, pairs = np.empty(64, np.int64), 0
    for m in range(len(latencies)):
        makers = maker[maker_start[m] : maker_start[m + 1]]
        stage = units.stage[units.home[units.home_start[makers[0]]]]
        inside = not by_operator and _inside_one_stage(units, maker, maker_start[m], maker_start[m + 1], stage)
        if inside and _inside_one_stage(units, reader, reader_start[m], reader_start[m + 1], stage):
            continue  # a stage that runs as a whole sees to it
        n_places, n_readers = _places(units, makers, places), 0
        for e in range(reader_start[m], reader_start[m + 1]):
            for h in range(units.home_start[reader[e]], units.home_start[reader[e] + 1]):
                unit = units.home[h]
                readers[n_readers] = unit
                everywhere, stays = True, False
                for one in makers:
                    everywhere &= _copy_at(units, one, units.group[unit]) >= 0
                for i in range(n_places):  # what one place has of it may be sent, while that of another stays
                    remote[i, n_readers] = _sends(units, makers, places[i], unit, everywhere, blocking)
                    route.own[i, n_readers] = blocking and _makes_a_part(units, makers, places[i], unit)
                    stays |= not remote[i, n_readers]
                for one in makers:
                    near = _copy_at(units, one, units.group[unit])
                    if stays and near >= 0 and near != unit:
                        if 2 * pairs + 2 > len(local):
                            local = longer(local)
                        local[2 * pairs], local[2 * pairs + 1] = near, unit
                        pairs += 1
                n_readers += 1
        end = ends[m] if by_operator else -1
        for at in np.argsort(places[:n_places]):
            for k in range(-1, n_readers if blocking else 0):
                stage = _stage_apart(units, route, at, k)
                n_source, n_target = _ends_of(units, makers, places[at], at, n_readers, stage, route)
                if n_target == 0:
                    continue
                source, target = route.source[:n_source], route.target[:n_target]
                key = _hash(end, source, target, len(table))
                b = table[key]
                while b >= 0 and not (
                    end_of[b] == end
                    and _same(sources, source_start[b], source_start[b + 1], source)
                    and _same(targets, target_start[b], target_start[b + 1], target)
                ):
                    b = following[b]
                if b < 0:
                    b = count
                    count += 1
                    if count == len(tensors):
                        tensors, end_of, following = longer(tensors), longer(end_of), longer(following)
                    while count > len(seconds):
                        total, seconds = _more(total, seconds)
                    if count + 1 >= len(source_start):
                        source_start, target_start = longer(source_start), longer(target_start)
                    while source_start[b] + n_source > len(sources):
                        sources = longer(sources)
                    while target_start[b] + n_target > len(targets):
                        targets = longer(targets)
                    sources[source_start[b] : source_start[b] + n_source] = source
                    targets[target_start[b] : target_start[b] + n_target] = target
                    source_start[b + 1] = source_start[b] + n_source
                    target_start[b + 1] = target_start[b] + n_target
                    tensors[b], end_of[b], following[b] = 0, end, table[key]
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
    return bundles, _distinct(local[: 2 * pairs].copy().reshape(-1, 2), len(units.stage))


@njit(cache=True)
def _distinct(pairs: Ints, units: int) -> Ints:
    """Rows without repetitions, ascending."""
    keys = np.unique(pairs[:, 0] * units + pairs[:, 1])
    rows = np.empty((len(keys), 2), np.int64)
    for i in range(len(keys)):
        rows[i, 0], rows[i, 1] = keys[i] // units, keys[i] % units
    return rows
