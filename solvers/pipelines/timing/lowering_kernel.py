"""The stages of a draft as units and tasks of `solvers.evaluation`, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.evaluation.tasks import Bundles, Messages, Rows, U, Units
from solvers.kernels.arrays import Bools, Ints
from solvers.kernels.lazy import njit
from solvers.pipelines.timing.stages_kernel import KINDS, runs_again


class Places(NamedTuple):
    """The devices of stages: groups of them, none of which is in two groups."""

    group: Ints
    """[stages]"""
    replicas: Ints
    """[groups] how many share each micro-batch"""
    start: Ints
    """[groups + 1] into device: as many as replicas, or one that stands for all of them"""
    device: Ints
    """numbers of devices, replica by replica"""


class Orders(NamedTuple):
    """What the devices of every group do, in their order."""

    start: Ints
    """[groups + 1] into unit and micro_batch"""
    unit: Ints
    """5 x stage + kind"""
    micro_batch: Ints
    """of the unit"""


@njit(cache=True)
def between_stages(messages: Messages, stage_of: Ints) -> Messages:
    """The messages that some stage makes and another makes or reads. Operators with the same end, 4 x super-operator +
    phase, are one in them. stage_of: of every super-operator."""
    maker_start, maker, reader_start, reader = (
        messages.maker_start, messages.maker, messages.reader_start, messages.reader,
    )  # fmt: skip
    makers, made = np.zeros(len(maker_start), np.int64), np.empty(len(maker), np.int64)
    readers, read = np.zeros(len(reader_start), np.int64), np.empty(len(reader), np.int64)
    chosen, n = np.empty(len(messages.latencies), np.int64), 0
    for m in range(len(messages.latencies)):
        stage, crosses = stage_of[maker[maker_start[m]] // 4], False
        for e in range(maker_start[m], maker_start[m + 1]):
            crosses |= stage_of[maker[e] // 4] != stage
        for e in range(reader_start[m], reader_start[m + 1]):
            crosses |= stage_of[reader[e] // 4] != stage
        if not crosses:
            continue
        makers[n + 1] = makers[n] + maker_start[m + 1] - maker_start[m]
        readers[n + 1] = readers[n] + reader_start[m + 1] - reader_start[m]
        for e in range(maker_start[m], maker_start[m + 1]):
            made[makers[n] + e - maker_start[m]] = maker[e]
        for e in range(reader_start[m], reader_start[m + 1]):
            read[readers[n] + e - reader_start[m]] = reader[e]
        chosen[n] = m
        n += 1
    chosen = chosen[:n]
    stated_s = messages.stated_s[chosen] if len(messages.stated_s) else messages.stated_s
    return Messages(
        makers[: n + 1], made[: makers[n]], readers[: n + 1], read[: readers[n]], messages.ends[chosen],
        messages.nbytes[chosen], stated_s, messages.latencies[chosen],
    )  # fmt: skip


@njit(cache=True)
def one_for_all(places: Places) -> Places:
    """The first device of every group stands for all of it; devices are renumbered."""
    groups = len(places.replicas)
    return Places(places.group, places.replicas, np.arange(groups + 1), np.arange(groups))


@njit(cache=True)
def units_of_draft(exists: Bools, again: Bools, size: Ints, mini_batch: int, places: Places) -> tuple[Units, Ints]:
    """The units that there are, and the number of unit 5 x stage + kind among them, -1 for those that are not.

    exists: [5 x stages]. again: stages that recompute; size: samples of a micro-batch; [stages]. No operators are
    listed: every unit is a whole stage.
    """
    there = np.flatnonzero(exists)
    count = len(there)
    number = np.full(len(exists), -1, np.int64)
    number[there] = np.arange(count)
    stage, kind = there // KINDS, there % KINDS
    samples, anew = np.empty(count, np.int64), np.zeros(count, np.bool_)
    group, key = places.group[stage], np.empty(count, np.int64)
    slot = np.zeros(count + 1, np.int64)
    for u in range(count):
        samples[u] = mini_batch if kind[u] == U else size[stage[u]]
        anew[u] = again[stage[u]] and runs_again(exists, there[u])
        # Places in the order of their first device, then of their micro-batches.
        key[u] = places.device[places.start[group[u]]] * (mini_batch + 1) + samples[u]
        slot[u + 1] = slot[u] + mini_batch // samples[u] * (places.start[group[u] + 1] - places.start[group[u]])
    keys = np.unique(key)
    place, place_group = np.searchsorted(keys, key), np.empty(len(keys), np.int64)
    for u in range(count):
        place_group[place[u]] = group[u]
    nowhere, none = np.full(count, -1, np.int64), np.zeros(0, np.int64)
    units = Units(
        stage, kind, nowhere, samples, mini_batch // samples, np.zeros(count, np.bool_), anew, group, place,
        place_group, places.start, places.device, places.replicas, np.zeros(count + 1, np.int64), none, none, none,
        slot,
    )  # fmt: skip
    return units, number


@njit(cache=True)
def with_homes(units: Units, home_start: Ints, home: Ints) -> Units:
    """The units, and which of them runs each operator: home[home_start[o]:home_start[o + 1]]."""
    return Units(
        units.stage, units.kind, units.operator, units.samples, units.micro_batches, units.call, units.again,
        units.group, units.place, units.place_group, units.group_start, units.group_device, units.replicas,
        units.member_start, units.member, home_start, home, units.slot,
    )  # fmt: skip


@njit(cache=True)
def rows_of_draft(units: Units, number: Ints, orders: Orders, devices: int) -> tuple[bool, Rows]:
    """(whether the orders have every task once and nothing else, the compute tasks); number: see `units_of_draft`."""
    start, device_of, slot = units.group_start, units.group_device, units.slot
    count = 0
    for g in range(len(start) - 1):
        count += (start[g + 1] - start[g]) * (orders.start[g + 1] - orders.start[g])
    unit, micro_batch = np.empty(count, np.int64), np.empty(count, np.int64)
    device, position = np.empty(count, np.int64), np.empty(count, np.int64)
    of_slot = np.full(slot[-1], -1, np.int64)
    whole, row = count == slot[-1], 0
    for g in range(len(start) - 1):
        width = start[g + 1] - start[g]
        for q in range(width):
            for e in range(orders.start[g], orders.start[g + 1]):
                u, j = number[orders.unit[e]], orders.micro_batch[e]
                unit[row], micro_batch[row] = u, j
                device[row], position[row] = device_of[start[g] + q], e - orders.start[g]
                if u < 0 or of_slot[slot[u] + j * width + q] >= 0:
                    whole = False
                else:
                    of_slot[slot[u] + j * width + q] = row
                row += 1
    return whole, Rows(unit, micro_batch, device, position, of_slot, np.ones(devices, np.bool_))


@njit(cache=True)
def folds(bundles: Bundles, units: Units) -> bool:
    """Whether replicas of a stage all do the same at the same time, if links are alike and have wires of their
    own: between stages that exchange tensors one number of replicas divides the other, and sizes are equal."""
    for b in range(len(bundles.tensors)):
        s = bundles.source[bundles.source_start[b]]
        width = units.replicas[units.group[s]]
        for e in range(bundles.target_start[b], bundles.target_start[b + 1]):
            t = bundles.target[e]
            other = units.replicas[units.group[t]]
            if units.samples[s] != units.samples[t] or (width % other != 0 and other % width != 0):
                return False
    return True
