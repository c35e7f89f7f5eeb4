"""The least sum of calls and CPU operators: what it brings to the walk over downsets, and its best cut of one order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.contiguous.lattice_kernel import Lattice
from solvers.contiguous.load_kernel import Costs
from solvers.contiguous.messages_kernel import Ends, join_undirected, leave
from solvers.contiguous.walk_kernel import LIVE, SOURCE, Stack, climber
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.uncounted import inlined, uncounted

Ids = NDArray[np.int32]


class Sum(NamedTuple):
    """The objective of `walk_sums`, and of `cut_order_sum` with an order's positions for downsets.

    A part is one operator on a CPU, or a set on the next accelerator, which takes its compute plus the hyperedges it
    splits. A state is the number of accelerators used.
    acc_bytes: cap of an accelerator. best: [downsets, states] least sum, s. came_from: [downsets, states] 2 * downset
    before + (1 if the part is on a CPU). remaining_s: [downsets] a sum that what is left takes at least. bound: [1]
    only sums below it are of interest; it falls. least_s: [1] the best of J with an accelerator left. ends: of the
    part. The rest is of the part at every depth of the walk, [depth].
    """

    costs: Costs
    acc_bytes: float
    best: Floats
    came_from: Ids
    remaining_s: Floats
    bound: Floats
    least_s: Floats
    ends: Ends
    acc_s: Floats
    moved_s: Floats
    nbytes: Floats


@inlined
def _take(target: int, after: int, value: float, came_from: int, at: Sum) -> None:
    """Note a chain of the downset ``target`` that ends in state ``after`` with sum ``value``."""
    if value < at.best[target, after] and value + at.remaining_s[target] < at.bound[0]:
        at.best[target, after] = value
        at.came_from[target, after] = came_from


@inlined
def _lower(target: int, at: Sum) -> None:
    """Lower the bound to the least sum of a whole chain, if one was reached."""
    if target == len(at.best) - 1:
        for f in range(at.best.shape[1]):
            at.bound[0] = min(at.bound[0], at.best[target, f])


@inlined
def _open(source: int, lattice: Lattice, stack: Stack, at: Sum) -> int:
    accelerators = at.best.shape[1] - 1
    for e in range(lattice.up_start[source], lattice.up_start[source + 1]):
        for f in range(accelerators + 1):
            value = at.best[source, f] + at.costs.cpu_s[0, lattice.up_element[e]]
            _take(lattice.up_to[e], f, value, 2 * source + 1, at)
        _lower(lattice.up_to[e], at)
    at.least_s[0] = np.inf
    for f in range(accelerators):
        stack.live[f] = f
        at.least_s[0] = min(at.least_s[0], at.best[source, f])
    at.acc_s[0] = at.moved_s[0] = at.nbytes[0] = 0.0
    return accelerators if at.least_s[0] + at.remaining_s[source] < at.bound[0] else 0


@inlined
def _extend(below: int, depth: int, v: int, at: Sum) -> bool:
    """Make the part at ``depth`` from the one below and a node, but for hyperedges; whether it can run so."""
    at.acc_s[depth] = at.acc_s[below] + at.costs.acc_s[0, 0, v]
    at.nbytes[depth] = at.nbytes[below] + at.costs.static_bytes[v]
    return bool(at.acc_s[depth] < np.inf and at.nbytes[depth] <= at.acc_bytes)


@inlined
def _join(below: int, depth: int, v: int, at: Sum) -> None:
    """Count the hyperedges that the part at ``depth`` splits as it is, with a node."""
    messages, moved_s = at.costs.messages, at.moved_s[below]
    for t in range(messages.node_start[v], messages.node_start[v + 1]):
        m = messages.node_message[t]
        moved_s += join_undirected(messages, at.ends, m) * at.costs.message_s[0, m]
    at.moved_s[depth] = moved_s


@inlined
def _add(depth: int, stack: Stack, at: Sum) -> bool:
    source, target, v = stack.cursor[SOURCE], stack.downset[depth], stack.element[depth]
    # What is computed only grows along the walk; hyperedges that are split may not stay so.
    if not _extend(depth - 1, depth, v, at) or at.least_s[0] + at.acc_s[depth] + at.remaining_s[target] >= at.bound[0]:
        return False
    _join(depth - 1, depth, v, at)
    for f in range(stack.cursor[LIVE]):
        _take(target, f + 1, at.best[source, f] + at.acc_s[depth] + at.moved_s[depth], 2 * source, at)
    _lower(target, at)
    return True


@inlined
def _remove(v: int, at: Sum) -> None:
    leave(at.costs.messages, at.ends, v)


_climb = climber(_open, _add, _remove)


@uncounted
def walk_sums(lattice: Lattice, stack: Stack, at: Sum, quota: int) -> int:
    """The least sum over chains of downsets: see `solvers.contiguous.walk_kernel`; DONE or PAUSED."""
    return _climb(lattice, stack, at, quota)


@uncounted
def cut_order_sum(order: Ints, at: Sum) -> None:
    """The least sum over cuts of one order; a row is a position, "the first i super-operators of the order". Parts grow
    in place, at depth 0. O(n^2 accelerators)."""
    accelerators = at.best.shape[1] - 1
    for first in range(len(order)):
        for f in range(accelerators + 1):
            _take(first + 1, f, at.best[first, f] + at.costs.cpu_s[0, order[first]], 2 * first + 1, at)
        at.ends.made[:] = 0
        at.acc_s[0] = at.moved_s[0] = at.nbytes[0] = 0.0
        for last in range(first, len(order)):
            if not _extend(0, 0, order[last], at):
                break
            _join(0, 0, order[last], at)
            for f in range(accelerators):
                _take(last + 1, f + 1, at.best[first, f] + at.acc_s[0] + at.moved_s[0], 2 * first, at)
