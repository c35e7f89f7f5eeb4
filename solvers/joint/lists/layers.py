"""The split that an expert writes down for a chain of layers: consecutive parts of equal work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from solvers.evaluation.columns import PHASES, graph_columns
from solvers.joint.lists.layers_kernel import balanced_cuts
from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem

ROUNDING = 1e-9
"""Relative excess over the least load, or over a cap, that is rounding."""


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


class Layers:
    """The layers ``members`` (operators, each in one, co-located ones in the same) of a problem: their costs, from the
    columns of the graph."""

    def __init__(self, problem: Problem, members: Sequence[Sequence[int]]) -> None:
        self.problem, self.count = problem, len(members)
        self.columns = graph_columns(problem.graph)
        self.layer_of = np.empty(len(problem.graph), np.int64)
        for number, operators in enumerate(members):
            self.layer_of[list(operators)] = number
        speeds = problem.cluster.speeds
        links = sum(speeds.values()) or 1
        self._latency_s = sum(count * speed.latency_s for speed, count in speeds.items()) / links
        self._per_byte_s = sum(count / speed.bandwidth_bytes_per_s for speed, count in speeds.items()) / links

    def at(self, samples: int) -> LayerCosts:
        """For micro-batches of ``samples``."""
        problem, devices = self.problem, self.problem.cluster.devices
        of_kind = {kind: problem.compute.at(kind, samples) for kind in sorted({d.kind for d in devices})}
        work = {kind: self._sums(seconds) for kind, seconds in of_kind.items()}
        allowed = np.stack([np.isfinite(work[device.kind]) for device in devices], axis=1)
        for operator, device in problem.pins.items():
            allowed[self.layer_of[operator], np.arange(len(devices)) != device] = False
        forward = self.columns.phase == PHASES.index(Phase.FORWARD)
        again = {kind: self._sums(np.where(forward, seconds, 0.0)) for kind, seconds in of_kind.items()}
        saved = np.zeros(self.count)
        if problem.stated_bytes is None and problem.has_backward():
            amount = self.columns.saved_bytes[:, 0] + self.columns.saved_bytes[:, 1] * samples
            saved = self._sums(np.where(forward, amount, 0.0))
        static = self._sums(problem.static_bytes())
        work_s, forward_s = (np.stack([of[device.kind] for device in devices], axis=1) for of in (work, again))
        return LayerCosts(work_s, forward_s, static, saved, allowed)

    def _sums(self, each: Floats) -> Floats:
        return np.asarray(np.bincount(self.layer_of, each, self.count), np.float64)

    def crossing_s(self, samples: int, row: Ints) -> Floats:
        """Seconds, at the mean speed of links, of all messages for ``samples`` that cross a cut before each layer of
        ``row``, and after the last, [rows + 1]."""
        tensor = self.columns.message_tensor
        if self.problem.transfer_s is not None:
            seconds = np.array(self.problem.transfer_s)[tensor] * samples
        else:
            nbytes = self.columns.tensor_bytes[tensor, 0] + self.columns.tensor_bytes[tensor, 1] * samples
            seconds = np.where(nbytes > 0, self._latency_s + nbytes * self._per_byte_s, 0.0)
        position = np.full(self.count, -1)
        position[row] = np.arange(len(row))
        first, last = np.full(len(tensor), len(row)), np.full(len(tensor), -1)  # of each message, in the row
        columns = self.columns
        for start, operator in ((columns.maker_start, columns.maker), (columns.reader_start, columns.reader)):
            message, at = np.repeat(np.arange(len(tensor)), np.diff(start)), position[self.layer_of[operator]]
            np.minimum.at(first, message, np.where(at < 0, len(row), at))
            np.maximum.at(last, message, at)
        in_row, size = last >= 0, len(row) + 2
        begins, ends = (np.bincount(at[in_row] + 1, seconds[in_row], size) for at in (first, last))
        return np.maximum(np.cumsum(begins - ends)[: len(row) + 1], 0.0)


def layer_split(
    model: PassModel, layers: Sequence[Sequence[int]], caps: Floats, devices: Sequence[int], *, transfers: bool
) -> Ints | None:
    """The device of every layer, [layers]: one consecutive part of them for each of ``devices``, in this order.

    layers: operators, each in exactly one; groups that share a device are not divided. The busiest device has the
    least work, and of those splits the sum of squares is least. Within ``caps`` (bytes, [devices of the
    model]), where an operator holds its static bytes and what it saves; None if there is no such split. transfers:
    whether the work of a part has the transfers in it that cross its ends, at mean speed. Layers that some of these
    devices may not take are placed first, one by one where least is done so far.
    """
    samples, of = model.problem.mini_batch, Layers(model.problem, layers)
    return cut_layers(of.at(samples), caps, devices, partial(of.crossing_s, samples) if transfers else None)


def cut_layers(
    costs: LayerCosts,
    caps: Floats,
    devices: Sequence[int],
    crossing_s: Callable[[Ints], Floats] | None = None,
    flights: Sequence[int] | None = None,
) -> Ints | None:
    """`layer_split` of layers with such costs.

    crossing_s: of the layers that may be anywhere, seconds of what crosses a cut before each of them, and after the
    last. flights: micro-batches that each of ``devices`` holds at once, by default one.
    """
    chosen = list(devices)
    layers, count = costs.work_s.shape
    copies = np.ones(count)
    copies[chosen] = flights or 1
    held = costs.static_bytes[:, None] + costs.saved_bytes[:, None] * copies
    place = np.full(layers, -1)
    besides_s, left = np.zeros(count), np.array(caps, np.float64) * (1 + ROUNDING)
    free = costs.allowed[:, chosen].all(axis=1)
    for layer in np.flatnonzero(~free).tolist():
        able = [d for d in range(count) if costs.allowed[layer, d] and held[layer, d] <= left[d]]
        if not able:
            return None
        place[layer] = min(able, key=lambda d: (besides_s[d] + costs.work_s[layer, d], d))
        besides_s[place[layer]] += costs.work_s[layer, place[layer]]
        left[place[layer]] -= held[layer, place[layer]]
    row = np.flatnonzero(free)
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
