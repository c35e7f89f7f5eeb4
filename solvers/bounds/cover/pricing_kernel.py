"""The most valuable path of a layered decision diagram within a limit on its load."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.kernels.arrays import Floats, Ints

GIVE_UP, JOIN, DROP = 0, 1, 2
LOOK_BACK = 8
"""Earlier labels of a node that a new one is compared with; without memory the last one is enough."""


@njit(cache=True)
def relaxed_values(
    layer: Ints, child: Ints, moved: Floats, gain: Floats, weight: Floats, price: float, value: Floats
) -> None:
    """The best gain - price * load from every node to the end, into value [nodes].

    gain, weight: [layers], what deciding "in" adds to the gain and to the load; moved: [nodes, 2],
    what a decision adds to the load besides.
    """
    value[layer[-2] :] = 0.0
    for i in range(len(layer) - 3, -1, -1):
        inside = gain[i] - price * weight[i]
        for node in range(layer[i], layer[i + 1]):
            best = -np.inf
            if child[node, 0] >= 0:
                best = value[child[node, 0]] - price * moved[node, 0]
            if child[node, 1] >= 0:
                best = max(best, value[child[node, 1]] - price * moved[node, 1] + inside)
            value[node] = best


@njit(cache=True)
def relaxed_path(
    layer: Ints, child: Ints, moved: Floats, gain: Floats, weight: Floats, price: float, value: Floats
) -> tuple[NDArray[np.bool_], float]:
    """A path that attains `relaxed_values` (which groups are in, by layer), and its load."""
    count = len(layer) - 2
    inside = np.zeros(count, np.bool_)
    node = 0
    load = 0.0
    for i in range(count):
        out, into = child[node, 0], child[node, 1]
        worth_out = value[out] - price * moved[node, 0] if out >= 0 else -np.inf
        worth_in = value[into] - price * (moved[node, 1] + weight[i]) + gain[i] if into >= 0 else -np.inf
        if worth_in > worth_out:
            inside[i] = True
            load += moved[node, 1] + weight[i]
            node = into
        else:
            load += moved[node, 0]
            node = out
    return inside, load


@njit(cache=True)
def best_within(
    layer: Ints,
    arcs_start: Ints,
    arcs: Ints,
    moved: Floats,
    gain: Floats,
    weight: Floats,
    nbytes: Floats,
    limit: float,
    cap: float,
    threshold: float,
    prices: Floats,
    values: Floats,
    least: Floats,
    most: int,
    many: int,
    crowded: int,
) -> tuple[float, NDArray[np.bool_]]:
    """(a bound on the gain of paths with a load of at most ``limit``, some such paths).

    nbytes: [layers], what "in" holds; a path may hold at most ``cap``. Zeros cost nothing.

    Label setting: per node the undominated pairs of load and gain, less those that cannot reach a gain
    above ``threshold`` (the bound is never below it) by ``values``, the `relaxed_values` [prices,
    nodes] at ``prices``. least: the least load from every node to the end. The arcs into node v are
    arcs[arcs_start[v]:arcs_start[v + 1]], 2 * node + decision. Paths: [at most ``many``, layers], most
    valuable first; none if nothing exceeds the threshold. crowded: what to do when there are more than
    ``most`` labels. GIVE_UP: return inf and no paths. JOIN: pairs of almost the same gain become one that
    is as good as each, so the bound stays valid and paths may be heavier than the limit. DROP: of
    such pairs one is kept, so paths are within the limit and the bound is none.
    """
    count = len(layer) - 2
    nodes = layer[-1]
    share = max(most // max(count, 1), 4 * np.max(np.diff(layer)))  # a node keeps at least one label
    room = share * count + 2
    load = np.empty(room)
    value = np.empty(room)
    held = np.empty(room)
    parent = np.empty(room, np.int64)
    first = np.zeros(nodes + 1, np.int64)
    load[0], value[0], held[0], parent[0] = 0.0, 0.0, 0.0, -1
    first[1] = 1
    total = 1
    head = np.empty(64, np.int64)
    tail = np.empty(64, np.int64)
    # Also where the threshold is 0: twice nothing stays nothing.
    finest = max(1e-6 * threshold, 1e-9 * np.sum(np.abs(gain)), 1e-300)
    coarse = 0.0
    for i in range(count):
        begin = total
        step = coarse * 0.5
        while True:
            total = begin
            full = False
            for node in range(layer[i + 1], layer[i + 2]):
                ways = arcs_start[node + 1] - arcs_start[node]
                if ways > len(head):
                    head = np.empty(2 * ways, np.int64)
                    tail = np.empty(2 * ways, np.int64)
                for w in range(ways):
                    source = arcs[arcs_start[node] + w] >> 1
                    head[w] = first[source]
                    tail[w] = first[source + 1]
                mine = total
                base = -np.inf
                while not full:
                    chosen = -1
                    at_load = np.inf
                    for w in range(ways):
                        if head[w] < tail[w]:
                            arc = arcs[arcs_start[node] + w]
                            through = load[head[w]] + moved[arc >> 1, arc & 1] + (arc & 1) * weight[i]
                            if through < at_load:
                                at_load = through
                                chosen = w
                    if chosen < 0 or at_load + least[node] > limit:
                        break
                    arc = arcs[arcs_start[node] + chosen]
                    source = head[chosen]
                    head[chosen] += 1
                    v = value[source] + (arc & 1) * gain[i]
                    m = held[source] + (arc & 1) * nbytes[i]
                    if m > cap:
                        continue
                    good = True
                    for other in range(total - 1, max(mine, total - LOOK_BACK) - 1, -1):
                        if v <= value[other] and m >= held[other]:
                            good = False
                            break
                    if not good:
                        continue
                    for p in range(len(prices)):
                        if v + values[p, node] + prices[p] * (limit - at_load) <= threshold:
                            good = False
                            break
                    if not good:
                        continue
                    if step > 0.0 and total > mine and v <= base + step:
                        if crowded == DROP:
                            continue
                        total -= 1  # joined: the load and bytes of the lighter, the gain of the better
                        at_load = load[total]
                        m = min(m, held[total])
                        v = max(v, value[total])
                    else:
                        base = v
                    if crowded == GIVE_UP and total >= room - 1:
                        return np.inf, np.zeros((0, count), np.bool_)
                    if crowded != GIVE_UP and total - begin >= share:
                        full = True
                        break
                    load[total] = at_load
                    value[total] = v
                    held[total] = m
                    parent[total] = 2 * source + (arc & 1)
                    total += 1
                first[node + 1] = total
            if not full:
                break
            step = max(2 * step, finest)
        if step > coarse:
            coarse = step
        if total == begin:
            return threshold, np.zeros((0, count), np.bool_)
    begin = first[layer[count]]
    ranked = begin + np.argsort(-value[begin:total])
    found = min(many, total - begin)
    paths = np.zeros((found, count), np.bool_)
    for f in range(found):
        at = ranked[f]
        for i in range(count - 1, -1, -1):
            paths[f, i] = parent[at] & 1
            at = parent[at] >> 1
    return max(threshold, value[ranked[0]]), paths
