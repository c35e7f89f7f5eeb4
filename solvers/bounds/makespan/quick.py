"""The bounds that are computed before every search, also that of work which devices divide in fractions, with prices
that prove it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.bounds.makespan.arrays import Clusters
from solvers.bounds.makespan.colocation import colocation_of
from solvers.bounds.makespan.delayed_heads_kernel import delayed_heads
from solvers.bounds.makespan.one_machine_kernel import longest_span, shared_span
from solvers.bounds.makespan.shape import ROUNDING, PassShape
from solvers.kernels.arrays import Floats

STEPS = 200
"""Steps of the search for prices of unlike devices; whatever is found proves something."""


@dataclass(frozen=True, slots=True)
class Prices:
    """per_second: [devices], of a second of each device; they add up to at most 1, and to 0 for devices that run
    any number of operators at once. bound_s: what they prove of the whole pass."""

    per_second: Floats
    bound_s: float


def prices(shape: PassShape) -> Prices:
    """Prices that prove much of the makespan.

    Let x[g, d] be the part of group g on device d, T the makespan: sum_d x[g, d] = 1, sum_g x[g, d] s[g, d] <= T
    and sum_g x[g, d] m[g] <= M[d]. For any prices y, z >= 0 with sum_d y[d] <= 1, adding these up gives
    T >= sum_g min_d (y[d] s[g, d] + z[d] m[g]) - sum_d z[d] M[d]: the dual of this linear program. Equal devices
    have equal prices (the bound is concave in them); the rest is found by ascent, which need not reach the best.
    """
    kinds, number, many = _kinds(shape)
    seconds = np.full((shape.groups, shape.seconds.shape[1]), 0.0)
    np.add.at(seconds, shape.group, np.where(shape.allowed[shape.group], shape.seconds, 0.0))
    seconds = np.where(shape.allowed, seconds, np.inf)[:, kinds]
    caps = shape.caps[kinds] * (1 + ROUNDING)
    counted = shape.serial[kinds]
    if not counted.any():
        return Prices(np.zeros(len(number)), 0.0)
    share = np.where(counted, many, 0.0) / many[counted].sum()
    room = np.where(np.isfinite(caps) & (shape.held.sum() > 0), caps, np.inf)
    scale = float(np.where(np.isfinite(seconds), seconds, 0.0).max(axis=1).sum())
    if scale <= 0:
        return Prices(np.zeros(len(number)), 0.0)
    fee, best = np.zeros(len(kinds)), Prices(np.zeros(len(number)), 0.0)
    total = float(shape.held.sum())
    for step in range(STEPS if len(kinds) > 1 else 1):
        each = share / many
        cost = _cost(seconds, each, fee, shape.held)
        chosen = cost.argmin(axis=1)
        rows = np.arange(len(cost))
        value = float(cost[rows, chosen].sum() - (many * fee * np.where(fee > 0, room, 0.0)).sum())
        if value > best.bound_s:
            best = Prices(each[number], value)
        if len(kinds) == 1:
            break
        busy = np.bincount(chosen, seconds[rows, chosen], len(kinds)) / many
        filled = np.bincount(chosen, shape.held, len(kinds)) / many
        pace = 1.0 / (1.0 + step) ** 0.5
        share = np.where(counted, share * np.exp(pace * (busy - busy.max()) / max(float(busy.max()), 1e-300)), 0.0)
        share = np.maximum(share, np.where(counted, 1e-6, 0.0))
        share /= share.sum()
        if total > 0:
            excess = np.where(np.isfinite(room), filled - room, -np.inf)
            fee = np.where(np.isfinite(room), np.maximum(0.0, fee + pace * excess * scale / total**2), 0.0)
    return best


def _cost(seconds: Floats, each: Floats, fee: Floats, held: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        priced = np.where(np.isfinite(seconds), seconds * each, np.inf)
    return np.asarray(priced + held[:, None] * fee)


def _kinds(shape: PassShape) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """(a device of every kind, the kind of every device, how many of every kind)."""
    columns = np.vstack([shape.seconds, shape.allowed, shape.caps, shape.serial])
    _, first, number, many = np.unique(columns, axis=1, return_index=True, return_inverse=True, return_counts=True)
    return first, number.reshape(-1), many.astype(np.float64)


WINDOW = 512
"""How many operators before another are looked at for its earliest start, in the quick bound."""
THRESHOLDS = 400
"""How many heads are tried as thresholds of the shared work."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Earliest starts [operators], and seconds that must follow each end [operators]; arcs visited."""

    head: Floats
    tail: Floats
    visited: int


def ends(shape: PassShape, clusters: Clusters, window: int, head: Floats, tail: Floats) -> Ends:
    """Heads and tails of all operators where those of a cluster share a device and separate clusters do not.

    head, tail: [operators], s, bounds already known. See `delayed_heads_kernel`; tails are the heads of the
    reversed pass.
    """
    seconds, forth, back, _ = shape.arrays
    head, tail = head.copy(), tail[::-1].copy()
    visited = delayed_heads(seconds, clusters, forth, shape.one_by_one, window, head)
    backwards = clusters._replace(of=clusters.of[::-1].copy())
    visited += delayed_heads(seconds[::-1].copy(), backwards, back, shape.one_by_one, window, tail)
    return Ends(head, tail[::-1].copy(), int(visited))


def quick_bound_s(shape: PassShape) -> float:
    """The largest of: the longest path through any operator, where transfers delay what cannot be on one device
    (`delayed_heads_kernel`); one device's time for each group (`preemptive_span`); work divided over the devices
    (`prices`), and whole groups of it (`packing_bound_s`); work between thresholds: what starts no earlier than a
    and is followed by b seconds takes all devices' time between a and T - b (the "energetic" argument; Erschler,
    Lopez and Thuriot, 1991)."""
    known = colocation_of(shape)
    times = ends(shape, known.clusters, WINDOW, known.head, known.tail)
    price = prices(shape)
    path = float((times.head + shape.least_s + times.tail).max())
    shared = float(shared_span(times.head, shape.least_priced(price.per_second), times.tail, THRESHOLDS))
    serial = longest_span(known.clusters, times.head, shape.least_s, times.tail) if shape.one_by_one else 0.0
    return max(path, price.bound_s, packing_bound_s(shape), shared, float(serial))


def packing_bound_s(shape: PassShape) -> float:
    """The most, over k, of the k + 1 lightest of the k m + 1 heaviest groups, on m devices.

    Some device has k + 1 of these, and no k + 1 of them take less (pigeonhole; Dell'Amico and Martello,
    Optimal scheduling of tasks on identical parallel processors, 1995, section 2). Groups count with their least
    times, so it holds for unequal devices; 0 where a device may run several operators at once.
    """
    if not shape.one_by_one:
        return 0.0
    devices = shape.seconds.shape[1]
    group_s = np.bincount(shape.group, shape.least_s, minlength=shape.groups)
    group_s = np.sort(np.where(shape.copyable > 0, 0.0, group_s))[::-1]  # copies need not stay together
    total = np.concatenate([[0.0], np.cumsum(group_s)])
    k = np.arange(1, (len(group_s) - 1) // devices + 1)
    sums = total[k * devices + 1] - total[k * (devices - 1)]
    return float(sums.max(initial=0.0))
