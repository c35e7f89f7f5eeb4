"""The split that an expert writes down for a chain of layers: consecutive parts of equal work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.joint.model import PassModel
from solvers.kernels.list_split import balanced_cuts
from solvers.list_scheduling.jobs import held_bytes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""Relative excess over the least load that is rounding."""


def layer_split(model: PassModel, caps: Floats, devices: Sequence[int], *, transfers: bool) -> Ints | None:
    """The device of every group, [groups]: one consecutive part of them for each of ``devices``, in this order.

    Groups come in the order of their first operators, which is that of the layers; mirrors follow their forward
    operator. The busiest device has the least work, and of those splits the sum of squares is least. Within
    ``caps`` (bytes, [devices of the model]), counted as in `held_bytes`; None if there is no such split. transfers:
    whether a part's work has the transfers in that cross its ends, at mean speed. Groups that some of these
    devices may not take are placed first, one by one where least is done so far.
    """
    held = held_bytes(model)
    work = np.zeros((len(model.groups), model.devices))
    np.add.at(work, model.group_of, model.seconds)
    chosen = list(devices)
    place = np.full(len(model.groups), -1)
    besides_s, left = np.zeros(model.devices), np.array(caps, np.float64)
    loose = model.allowed[:, chosen].all(axis=1)
    for group in np.flatnonzero(~loose).tolist():
        able = [d for d in range(model.devices) if model.allowed[group, d] and held[group] <= left[d]]
        if not able:
            return None
        place[group] = min(able, key=lambda d: (besides_s[d] + work[group, d], d))
        besides_s[place[group]] += work[group, place[group]]
        left[place[group]] -= held[group]
    row = np.flatnonzero(loose)
    total_s = np.zeros((len(chosen), len(row) + 1))
    np.cumsum(work[row][:, chosen].T, axis=1, out=total_s[:, 1:])
    total_bytes = np.concatenate([[0.0], np.cumsum(held[row])])
    cut_s = _crossing_s(model, row) if transfers else np.zeros(len(row) + 1)
    given = total_s, total_bytes, besides_s[chosen], left[chosen] * (1 + ROUNDING), cut_s
    ends = balanced_cuts(*given, np.inf)
    if len(ends) and ends[-1] < 0:
        return None
    loads = _loads(ends, total_s, besides_s[chosen], cut_s)
    ends = balanced_cuts(*given, max(loads) * (1 + ROUNDING))
    begin = 0
    for device, end in zip(chosen, ends.tolist(), strict=True):
        place[row[begin:end]] = device
        begin = end
    return place


def _loads(ends: Ints, total_s: Floats, besides_s: Floats, cut_s: Floats) -> list[float]:
    loads, begin = [], 0
    for d, end in enumerate(ends.tolist()):
        crossing = cut_s[begin] + cut_s[end] if end > begin else 0.0
        loads.append(float(besides_s[d] + total_s[d, end] - total_s[d, begin] + crossing))
        begin = end
    return loads


def _crossing_s(model: PassModel, row: Ints) -> Floats:
    """Seconds of all messages that cross a cut before each of these groups, [count + 1]."""
    position = np.full(len(model.groups), -1)
    position[row] = np.arange(len(row))
    change = np.zeros(len(row) + 2)
    for number, message in enumerate(model.messages):
        ends = position[model.group_of[[*message.producers, *message.readers]]]
        ends = ends[ends >= 0]
        if len(ends):
            change[ends.min() + 1] += model.mean_transfer_s[number]
            change[ends.max() + 1] -= model.mean_transfer_s[number]
    crossing: Floats = np.maximum(np.cumsum(change)[: len(row) + 1], 0.0)
    return crossing
