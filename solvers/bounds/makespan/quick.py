"""The bounds that are told before every search."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.bounds.makespan.beliefs import beliefs
from solvers.bounds.makespan.delayed_heads_kernel import delayed_heads
from solvers.bounds.makespan.one_machine_kernel import longest_span, shared_span
from solvers.bounds.makespan.packing import packing_bound_s
from solvers.bounds.makespan.shape import Arcs, PassShape
from solvers.bounds.makespan.shared_load import prices
from solvers.kernels.arrays import Floats, Ints

Flags = NDArray[np.uint8]

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


def ends(
    shape: PassShape,
    cluster: Ints,
    loose: Flags,
    apart: Flags,
    window: int,
    head: Floats | None = None,
    tail: Floats | None = None,
) -> Ends:
    """Heads and tails of all operators if those of a cluster share a device and clusters that are apart do not.

    head, tail: bounds already known. See `delayed_heads_kernel`; tails are the heads of the reversed pass.
    """
    count = shape.operators
    head = np.zeros(count) if head is None else head.copy()
    tail = np.zeros(count) if tail is None else tail[::-1].copy()
    visited = _raise(shape.least_s, cluster, loose, apart, shape.forth, shape.one_by_one, window, head)
    visited += _raise(
        shape.least_s[::-1].copy(), cluster[::-1].copy(), loose, apart, shape.back, shape.one_by_one, window, tail
    )
    return Ends(head, tail[::-1].copy(), visited)


def _raise(
    seconds: Floats, cluster: Ints, loose: Flags, apart: Flags, arcs: Arcs, one_by_one: bool, window: int, head: Floats
) -> int:
    return int(
        delayed_heads(
            seconds, cluster, loose, apart, arcs.in_start, arcs.in_from, arcs.in_delay, arcs.out_start, arcs.out_to,
            arcs.out_delay, one_by_one, window, head,
        )
    )  # fmt: skip


def quick_bound_s(shape: PassShape) -> float:
    """The largest of: the longest way through any operator, where transfers delay what cannot be on one device
    (`delayed_heads_kernel`); one device's time for each group (`preemptive_span`); work shared out over the devices
    (`prices`), and whole groups of it (`packing_bound_s`); work between thresholds: what starts no earlier than a
    and is followed by b seconds takes all devices' time between a and T - b (the "energetic" argument; Erschler,
    Lopez and Thuriot, 1991)."""
    known = beliefs(shape)
    found = ends(shape, known.cluster, known.loose, known.apart, WINDOW)
    price = prices(shape)
    with np.errstate(invalid="ignore"):
        each = np.where(shape.allowed[shape.group], shape.seconds * price.per_second, np.inf).min(axis=1)
    path = float((found.head + shape.least_s + found.tail).max())
    shared = float(shared_span(found.head, each, found.tail, THRESHOLDS))
    serial = 0.0
    if shape.one_by_one:
        serial = longest_span(known.cluster, known.loose, found.head, shape.least_s, found.tail)
    return max(path, price.bound_s, packing_bound_s(shape), shared, float(serial))
