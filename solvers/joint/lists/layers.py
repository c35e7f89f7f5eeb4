"""The split that an expert writes down for a chain of layers: consecutive parts of equal work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.joint.lists.layers_kernel import balanced_cuts
from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Floats, Ints

ROUNDING = 1e-9
"""Relative excess over the least load, or over a cap, that is rounding."""


def layer_split(
    model: PassModel,
    layers: Sequence[Sequence[int]],
    caps: Floats,
    devices: Sequence[int],
    *,
    transfers: bool,
    flights: Sequence[int] | None = None,
) -> Ints | None:
    """The device of every layer, [layers]: one consecutive part of them for each of ``devices``, in this order.

    layers: operators, each in exactly one; groups that share a device are not divided. The busiest device has the
    least work, and of those splits the sum of squares is least. Within ``caps`` (bytes, [devices of the
    model]), where an operator holds its static bytes and what it saves, that ``flights`` times on each of
    ``devices`` (once by default); None if there is no such split. transfers: whether the work of a part has
    the transfers in it that cross its ends, at mean speed. Layers that some of these devices may not take are
    placed first, one by one where least is done so far.
    """
    layer_of = np.empty(model.operators, np.int64)
    for number, operators in enumerate(layers):
        layer_of[list(operators)] = number
    chosen = list(devices)
    copies = np.ones(model.devices)
    copies[chosen] = flights or 1
    work = np.zeros((len(layers), model.devices))
    np.add.at(work, layer_of, model.seconds)
    a = model.arrays
    held = np.zeros((len(layers), model.devices))
    np.add.at(held, layer_of, a.static_bytes[:, None] + a.saved_bytes[:, None] * copies)
    allowed = np.ones((len(layers), model.devices), np.bool_)
    np.logical_and.at(allowed, layer_of, model.allowed[model.group_of])

    place = np.full(len(layers), -1)
    besides_s, left = np.zeros(model.devices), np.array(caps, np.float64) * (1 + ROUNDING)
    loose = allowed[:, chosen].all(axis=1)
    for layer in np.flatnonzero(~loose).tolist():
        able = [d for d in range(model.devices) if allowed[layer, d] and held[layer, d] <= left[d]]
        if not able:
            return None
        place[layer] = min(able, key=lambda d: (besides_s[d] + work[layer, d], d))
        besides_s[place[layer]] += work[layer, place[layer]]
        left[place[layer]] -= held[layer, place[layer]]
    row = np.flatnonzero(loose)
    cut_s = _crossing_s(model, layer_of, row, len(layers)) if transfers else np.zeros(len(row) + 1)
    given = _totals(work[row][:, chosen]), _totals(held[row][:, chosen]), besides_s[chosen], left[chosen], cut_s
    ends = balanced_cuts(*given, np.inf)
    if ends[-1] < 0:
        return None
    most = max(_loads(ends, given[0], besides_s[chosen], cut_s))
    ends = balanced_cuts(*given, most * (1 + ROUNDING))
    begin = 0
    for device, end in zip(chosen, ends.tolist(), strict=True):
        place[row[begin:end]] = device
        begin = end
    return place


def _totals(each: Floats) -> Floats:
    """Sums of the first so many, [devices, count + 1], of [count, devices]."""
    totals = np.zeros((each.shape[1], len(each) + 1))
    np.cumsum(each.T, axis=1, out=totals[:, 1:])
    return totals


def _loads(ends: Ints, total_s: Floats, besides_s: Floats, cut_s: Floats) -> list[float]:
    loads, begin = [], 0
    for d, end in enumerate(ends.tolist()):
        crossing = cut_s[begin] + cut_s[end] if end > begin else 0.0
        loads.append(float(besides_s[d] + total_s[d, end] - total_s[d, begin] + crossing))
        begin = end
    return loads


def _crossing_s(model: PassModel, layer_of: Ints, row: Ints, layers: int) -> Floats:
    """Seconds of all messages that cross a cut before each of these layers, [count + 1]."""
    position = np.full(layers, -1)
    position[row] = np.arange(len(row))
    change = np.zeros(len(row) + 2)
    for number, message in enumerate(model.messages):
        ends = position[layer_of[[*message.producers, *message.readers]]]
        ends = ends[ends >= 0]
        if len(ends):
            change[ends.min() + 1] += model.mean_transfer_s[number]
            change[ends.max() + 1] -= model.mean_transfer_s[number]
    crossing: Floats = np.maximum(np.cumsum(change)[: len(row) + 1], 0.0)
    return crossing
