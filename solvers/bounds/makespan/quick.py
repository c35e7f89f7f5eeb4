"""The bounds that are computed before every search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.bounds.makespan.arrays import Clusters
from solvers.bounds.makespan.colocation import colocation_of
from solvers.bounds.makespan.delayed_heads_kernel import delayed_heads
from solvers.bounds.makespan.one_machine_kernel import longest_span, shared_span
from solvers.bounds.makespan.shape import PassShape
from solvers.bounds.makespan.shared_load import prices
from solvers.kernels.arrays import Floats

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
    (`delayed_heads_kernel`); one device's time for each group (`preemptive_span`); work shared out over the devices
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
