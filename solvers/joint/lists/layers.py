"""The split that an expert writes down for a chain of layers: consecutive parts of equal work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from solvers.joint.lists.layers_kernel import balanced_cuts
from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Bools, Floats, Ints

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
    a = model.arrays
    costs = LayerCosts(
        _added(layer_of, model.seconds, len(layers)),
        np.zeros((len(layers), model.devices)),
        _added(layer_of, a.static_bytes, len(layers)),
        _added(layer_of, a.saved_bytes, len(layers)),
        np.ones((len(layers), model.devices), np.bool_),
    )
    np.logical_and.at(costs.allowed, layer_of, model.allowed[model.group_of])
    crossing = partial(_crossing_s, model, layer_of, layers=len(layers)) if transfers else None
    return cut_layers(costs, caps, devices, crossing, flights)


class LayerCosts(NamedTuple):
    """What layers take of devices, all for one micro-batch."""

    work_s: Floats
    """[layers, devices] s"""
    forward_s: Floats
    """[layers, devices] s of them in the forward"""
    static_bytes: Floats
    """[layers] B held all the time"""
    saved_bytes: Floats
    """[layers] B held by every micro-batch in flight"""
    allowed: Bools
    """[layers, devices] whether it may be there"""


def cut_layers(
    costs: LayerCosts,
    caps: Floats,
    devices: Sequence[int],
    crossing_s: Callable[[Ints], Floats] | None = None,
    flights: Sequence[int] | None = None,
) -> Ints | None:
    """`layer_split` of layers with such costs. crossing_s: of the layers that may be anywhere, seconds of what crosses
    a cut before each of them, and after the last."""
    chosen = list(devices)
    layers, count = costs.work_s.shape
    copies = np.ones(count)
    copies[chosen] = flights or 1
    held = costs.static_bytes[:, None] + costs.saved_bytes[:, None] * copies
    place = np.full(layers, -1)
    besides_s, left = np.zeros(count), np.array(caps, np.float64) * (1 + ROUNDING)
    loose = costs.allowed[:, chosen].all(axis=1)
    for layer in np.flatnonzero(~loose).tolist():
        able = [d for d in range(count) if costs.allowed[layer, d] and held[layer, d] <= left[d]]
        if not able:
            return None
        place[layer] = min(able, key=lambda d: (besides_s[d] + costs.work_s[layer, d], d))
        besides_s[place[layer]] += costs.work_s[layer, place[layer]]
        left[place[layer]] -= held[layer, place[layer]]
    row = np.flatnonzero(loose)
    cut_s = np.zeros(len(row) + 1) if crossing_s is None else crossing_s(row)
    work_s = costs.work_s[row][:, chosen]
    given = _totals(work_s), _totals(held[row][:, chosen]), besides_s[chosen], left[chosen], cut_s
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


def _added(layer_of: Ints, each: Floats, layers: int) -> Floats:
    """Sums by layer of what operators have, [layers, ...] of [operators, ...]."""
    total = np.zeros((layers, *each.shape[1:]))
    np.add.at(total, layer_of, each)
    return total


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


def module_order(model: PassModel) -> Ints:
    """Groups module by module, a permutation: inside a module its parts in the order in which they first run.

    The steps of an unrolled layer are one module, so layers come one after the other, where a topological order
    has them side by side. Operators of no module stay where they are in topological order.
    """
    operators = model.problem.graph.operators
    first: dict[str, int] = {}
    paths = []
    for number, group in enumerate(model.groups):
        parts = operators[group[0]].module_path.split(".") if operators[group[0]].module_path else []
        prefixes = [".".join(parts[: i + 1]) for i in range(len(parts))]
        for prefix in prefixes:
            first.setdefault(prefix, number)
        paths.append(prefixes)
    keys = [(*(first[prefix] for prefix in prefixes), number) for number, prefixes in enumerate(paths)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def split_by_modules(
    model: PassModel, order: Ints, caps: Floats, devices: Sequence[int], *, transfers: bool
) -> Ints | None:
    """`layer_split` of the groups in the order of `module_order`: the device of every group, [groups], or None."""
    parts = layer_split(model, [model.groups[g] for g in order], caps, devices, transfers=transfers)
    if parts is None:
        return None
    place = np.empty(len(order), np.int64)
    place[order] = parts
    return place
