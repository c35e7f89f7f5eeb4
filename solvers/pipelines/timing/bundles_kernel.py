"""Which tensors leave the stages of a draft, and which of them travel together, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.pipelines.timing.stages_kernel import KINDS, U


class Messages(NamedTuple):
    """Messages between super-operators: makers and readers of row m are the entries start[m]:start[m + 1],
    each a super-operator and the phase of its operator, in the graph's order. fixed, per_sample: bytes;
    stated: seconds per sample; tensors: how many of them pay a latency; [messages]."""

    maker_start: Ints
    maker_node: Ints
    maker_phase: Ints
    reader_start: Ints
    reader_node: Ints
    reader_phase: Ints
    fixed: Floats
    per_sample: Floats
    stated: Floats
    tensors: Ints


class Bundles(NamedTuple):
    """Tensors that leave the same units for the same units: sources[source_start[b]:source_start[b + 1]], and
    the like for targets, sorted by place. fixed, ...: sums of `Messages`. local: pairs of units on the same
    devices, but of different stages, of which the second waits for the first, [pairs, 2]."""

    source_start: Ints
    sources: Ints
    target_start: Ints
    targets: Ints
    fixed: Floats
    per_sample: Floats
    stated: Floats
    tensors: Ints
    local: Ints


@njit(cache=True)
def _longer(array: Ints) -> Ints:
    longer = np.zeros(2 * len(array), np.int64)
    longer[: len(array)] = array
    return longer


@njit(cache=True)
def _insert_sorted(row: Ints, count: int, value: int, place: Ints) -> None:
    """Insert a unit into row[:count], sorted by place, then unit."""
    i = count
    while i > 0 and (place[row[i - 1]] > place[value] or (place[row[i - 1]] == place[value] and row[i - 1] > value)):
        row[i] = row[i - 1]
        i -= 1
    row[i] = value


@njit(cache=True)
def _moves(maker: int, reader: int, group: Ints, place: Ints, replicated: Bools) -> bool:
    """Whether what a unit makes is sent to a unit that reads it: to other devices, or between replicas that
    share micro-batches of another size otherwise."""
    if group[maker] != group[reader]:
        return True
    return bool(replicated[group[maker]] and place[maker] != place[reader] and reader % KINDS != U)


@njit(cache=True)
def bundles_of(
    messages: Messages, stage_of: Ints, unit_of: Ints, group: Ints, place: Ints, replicated: Bools
) -> Bundles:
    """The bundles in the order in which the messages first need them.

    unit_of: [stages, phases]. group: the devices of every unit; place: devices and micro-batch size, numbered
    in their order. replicated: whether devices are several, [groups].
    """
    units = len(group)
    rows = len(messages.fixed)
    source_start, target_start = np.zeros(rows + 2, np.int64), np.zeros(rows + 2, np.int64)
    sources, targets = np.zeros(64, np.int64), np.zeros(64, np.int64)
    fixed, per_sample, stated = np.zeros(rows + 1), np.zeros(rows + 1), np.zeros(rows + 1)
    tensors = np.zeros(rows + 1, np.int64)
    head, following = np.full(units, -1, np.int64), np.full(rows + 2, -1, np.int64)
    count = 0
    local = np.zeros(64, np.int64)
    pairs = 0
    shared = np.zeros((units, units), np.bool_)
    seen_maker, seen_reader = np.full(units, -1, np.int64), np.full(units, -1, np.int64)
    makers, readers = np.zeros(units, np.int64), np.zeros(units, np.int64)
    places, away = np.zeros(units, np.int64), np.zeros(units, np.int64)
    source, target = np.zeros(units + 1, np.int64), np.zeros(units + 1, np.int64)
    for m in range(rows):
        first = stage_of[messages.maker_node[messages.maker_start[m]]]
        crosses = False
        for e in range(messages.maker_start[m], messages.maker_start[m + 1]):
            crosses |= stage_of[messages.maker_node[e]] != first
        for e in range(messages.reader_start[m], messages.reader_start[m + 1]):
            crosses |= stage_of[messages.reader_node[e]] != first
        if not crosses:
            continue
        n_makers = n_readers = n_places = n_away = 0
        for e in range(messages.maker_start[m], messages.maker_start[m + 1]):
            unit = unit_of[stage_of[messages.maker_node[e]], messages.maker_phase[e]]
            if seen_maker[unit] != m:
                seen_maker[unit] = m
                makers[n_makers] = unit
                n_makers += 1
                known = False
                for p in range(n_places):
                    known |= places[p] == place[unit]
                if not known:
                    places[n_places] = place[unit]
                    n_places += 1
        for e in range(messages.reader_start[m], messages.reader_start[m + 1]):
            unit = unit_of[stage_of[messages.reader_node[e]], messages.reader_phase[e]]
            if seen_reader[unit] == m:
                continue
            seen_reader[unit] = m
            readers[n_readers] = unit
            n_readers += 1
            stays = False
            for p in range(n_places):
                for k in range(n_makers):
                    if place[makers[k]] != places[p]:
                        continue
                    if not _moves(makers[k], unit, group, place, replicated):
                        stays = True
                        continue
                    known = False
                    for a in range(n_away):
                        known |= away[a] == places[p]
                    if not known:
                        away[n_away] = places[p]
                        n_away += 1
            for k in range(n_makers if stays else 0):
                maker = makers[k]
                if group[maker] == group[unit] and maker // KINDS != unit // KINDS and not shared[maker, unit]:
                    shared[maker, unit] = True
                    if pairs == len(local):
                        local = _longer(local)
                    local[pairs], local[pairs + 1] = maker, unit
                    pairs += 2
        for a in range(n_away):
            n_source = n_target = 0
            for k in range(n_makers):
                if place[makers[k]] == away[a]:
                    _insert_sorted(source, n_source, makers[k], place)
                    n_source += 1
            for k in range(n_readers):
                if _moves(source[0], readers[k], group, place, replicated):
                    _insert_sorted(target, n_target, readers[k], place)
                    n_target += 1
            b = head[source[0]]
            while b >= 0:
                same = source_start[b + 1] - source_start[b] == n_source
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
                if count + 2 > len(source_start) or count + 1 > len(fixed):
                    source_start, target_start = _longer(source_start), _longer(target_start)
                    tensors, following = _longer(tensors), _longer(following)
                    more = np.zeros(len(fixed))
                    fixed = np.concatenate((fixed, more))
                    per_sample = np.concatenate((per_sample, more))
                    stated = np.concatenate((stated, more))
                while source_start[b] + n_source > len(sources):
                    sources = _longer(sources)
                while target_start[b] + n_target > len(targets):
                    targets = _longer(targets)
                for k in range(n_source):
                    sources[source_start[b] + k] = source[k]
                for k in range(n_target):
                    targets[target_start[b] + k] = target[k]
                source_start[b + 1] = source_start[b] + n_source
                target_start[b + 1] = target_start[b] + n_target
                following[b] = head[source[0]]
                head[source[0]] = b
                count += 1
            fixed[b] += messages.fixed[m]
            per_sample[b] += messages.per_sample[m]
            stated[b] += messages.stated[m]
            tensors[b] += messages.tensors[m]
    return Bundles(
        source_start[: count + 1],
        sources[: source_start[count]],
        target_start[: count + 1],
        targets[: target_start[count]],
        fixed[:count],
        per_sample[:count],
        stated[:count],
        tensors[:count],
        local[:pairs].copy().reshape(-1, 2),
    )
