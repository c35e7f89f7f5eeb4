"""The least sum of calls and CPU operators over chains of downsets, and over cuts of one order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.contiguous.lattice_kernel import DONE, PAUSED, Lattice
from solvers.contiguous.load_kernel import Costs
from solvers.kernels.arrays import Floats, Ints

Ids = NDArray[np.int32]


class SumWalk(NamedTuple):
    """The state of `walk_sums` between two calls.

    best: [downsets, accelerators + 1] least sum with that many accelerators used; came_from: the
    same shape, 2 * downset before + (1 if the step is one operator on a CPU), -1 for none.
    remaining_s: [downsets] a sum that what is left takes at least. cursor: [downset J, depth or -1].
    bound: [1] only sums below it are of interest. inside: [nets] elements of the set on each net;
    path_*: the walk's stack; path_sum columns: seconds of compute, of transfers, bytes.
    """

    best: Floats
    came_from: Ids
    remaining_s: Floats
    cursor: Ints
    bound: Floats
    inside: Ints
    path_at: Ints
    path_next: Ints
    path_element: Ints
    path_sum: Floats


@njit(cache=True)
def walk_sums(lattice: Lattice, costs: Costs, acc_bytes: float, at: SumWalk, quota: int) -> int:
    """Push dynamic programme over pairs of downsets J < I, about ``quota`` of them; DONE or PAUSED.

    A step from J adds either one operator on a CPU or a set on the next accelerator, which takes its
    compute plus the hyperedges it splits. Supersets of J are walked depth-first, elements in descending
    order, so that each is met once (see `solvers.contiguous.downset_walk_kernel.walk`).
    """
    _, up_start, up_element, up_to = lattice
    best, came_from, remaining_s, cursor, bounds, inside, path_at, path_next, path_element, sums = at
    accelerators = best.shape[1] - 1
    full = len(best) - 1
    pairs = 0
    source, depth = cursor[0], cursor[1]
    while source < full:
        least = np.inf
        for f in range(accelerators):
            least = min(least, best[source, f])
        if depth < 0:
            for e in range(up_start[source], up_start[source + 1]):
                target = up_to[e]
                for f in range(accelerators + 1):
                    value = best[source, f] + costs.cpu_s[up_element[e]]
                    if value < best[target, f] and value + remaining_s[target] < bounds[0]:
                        best[target, f] = value
                        came_from[target, f] = 2 * source + 1
                        if target == full:
                            bounds[0] = min(bounds[0], value)
            if least + remaining_s[source] >= bounds[0]:
                source += 1
                continue
            depth = 0
            path_at[0] = source
            path_next[0] = up_start[source]
            path_element[0] = len(costs.acc_s)
            sums[0, :] = 0.0
        while depth >= 0:
            e = path_next[depth]
            last = path_element[depth]
            if e >= up_start[path_at[depth] + 1] or up_element[e] > last:
                if depth > 0:
                    for q in range(costs.nets_start[last], costs.nets_start[last + 1]):
                        inside[costs.nets[q]] -= 1
                depth -= 1
                continue
            path_next[depth] = e + 1
            target = up_to[e]
            v = up_element[e]
            acc_s = sums[depth, 0] + costs.acc_s[v]
            nbytes = sums[depth, 2] + costs.static_bytes[v]
            if not costs.supported[v] or nbytes > acc_bytes or least + acc_s + remaining_s[target] >= bounds[0]:
                continue
            moved = sums[depth, 1]
            for q in range(costs.nets_start[v], costs.nets_start[v + 1]):
                net = costs.nets[q]
                inside[net] += 1
                if inside[net] == 1:
                    moved += costs.net_s[net]
                if inside[net] == costs.net_size[net]:
                    moved -= costs.net_s[net]
            depth += 1
            pairs += 1
            path_at[depth] = target
            path_next[depth] = up_start[target]
            path_element[depth] = v
            sums[depth, 0] = acc_s
            sums[depth, 1] = moved
            sums[depth, 2] = nbytes
            for f in range(accelerators):
                value = best[source, f] + acc_s + moved
                if value < best[target, f + 1] and value + remaining_s[target] < bounds[0]:
                    best[target, f + 1] = value
                    came_from[target, f + 1] = 2 * source
                    if target == full:
                        bounds[0] = min(bounds[0], value)
            if pairs >= quota:
                cursor[0], cursor[1] = source, depth
                return PAUSED
        source += 1
    cursor[0], cursor[1] = source, -1
    return DONE


@njit(cache=True)
def cut_order_sum(order: Ints, costs: Costs, acc_bytes: float, accelerators: int) -> tuple[Floats, Ints]:
    """`walk_sums` along one order: best and came_from, [positions + 1, accelerators + 1], with "the first
    i super-operators of the order" for "downset i". O(n^2 accelerators)."""
    count = len(order)
    best = np.full((count + 1, accelerators + 1), np.inf)
    came_from = np.full((count + 1, accelerators + 1), -1, np.int64)
    best[0, 0] = 0.0
    inside = np.zeros(len(costs.net_size), np.int64)
    for first in range(count):
        for f in range(accelerators + 1):
            value = best[first, f] + costs.cpu_s[order[first]]
            if value < best[first + 1, f]:
                best[first + 1, f] = value
                came_from[first + 1, f] = 2 * first + 1
        inside[:] = 0
        acc_s, moved, nbytes = 0.0, 0.0, 0.0
        for last in range(first, count):
            v = order[last]
            acc_s += costs.acc_s[v]
            nbytes += costs.static_bytes[v]
            if not costs.supported[v] or nbytes > acc_bytes:
                break
            for q in range(costs.nets_start[v], costs.nets_start[v + 1]):
                net = costs.nets[q]
                inside[net] += 1
                if inside[net] == 1:
                    moved += costs.net_s[net]
                if inside[net] == costs.net_size[net]:
                    moved -= costs.net_s[net]
            for f in range(accelerators):
                value = best[first, f] + acc_s + moved
                if value < best[last + 1, f + 1]:
                    best[last + 1, f + 1] = value
                    came_from[last + 1, f + 1] = 2 * first
    return best, came_from
