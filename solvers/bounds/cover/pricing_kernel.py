"""The most valuable path of a layered decision diagram within a limit on its load."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit

GIVE_UP, JOIN, DROP = 0, 1, 2
"""What to do when there are more labels than allowed: return a bound of inf and no paths; make of pairs of almost the
same gain one that is as good as each, so that the bound stays valid and paths may be heavier than the limit; keep one
of such pairs, so that paths are within the limit and the bound is none."""
LOOK_BACK = 8
"""Earlier labels of a node that a new one is compared with; without memory the last one is enough."""


class Layers(NamedTuple):
    """A decision diagram: the nodes of layer i are ``layer[i]:layer[i + 1]``, and decision 0 is out, 1 in."""

    layer: Ints  # [layers + 2]; the last layer is one node
    child: Ints  # [nodes, 2], where a decision leads, -1 if it is not possible
    moved: Floats  # [nodes, 2], what a decision adds to the load whichever group it is about
    arcs_start: Ints  # [nodes + 1]
    arcs: Ints  # 2 * node + decision; those into node v are arcs[arcs_start[v]:arcs_start[v + 1]]


class Worth(NamedTuple):
    """What deciding "in" adds, [layers]."""

    gain: Floats
    load: Floats
    held: Floats  # bytes, or compute; zeros cost nothing


class Outlook(NamedTuple):
    """What can be had from every node to the end."""

    prices: Floats  # of load
    values: Floats  # [prices, nodes], `relaxed_values` at each price
    least: Floats  # [nodes], the least load


class Search(NamedTuple):
    """What is sought: paths of a load of at most ``limit`` that hold at most ``cap`` and gain over ``threshold``."""

    layers: Layers
    worth: Worth
    outlook: Outlook
    limit: float
    cap: float
    threshold: float


class Labels(NamedTuple):
    """Undominated paths to the nodes of the diagram; those of node v are ``first[v]:first[v + 1]``, by load."""

    load: Floats
    value: Floats
    held: Floats
    parent: Ints  # 2 * label + decision
    first: Ints  # [nodes + 1]
    at: Ints  # [arcs into a node], the next label of each arc's source while a node is filled
    end: Ints  # [arcs into a node]


@njit(cache=True)
def relaxed_values(layers: Layers, worth: Worth, price: float, value: Floats) -> None:
    """The best gain - price * load from every node to the end, into value [nodes]."""
    layer, child, moved = layers.layer, layers.child, layers.moved
    value[layer[-2] :] = 0.0
    for i in range(len(layer) - 3, -1, -1):
        inside = worth.gain[i] - price * worth.load[i]
        for node in range(layer[i], layer[i + 1]):
            best = -np.inf
            if child[node, 0] >= 0:
                best = value[child[node, 0]] - price * moved[node, 0]
            if child[node, 1] >= 0:
                best = max(best, value[child[node, 1]] - price * moved[node, 1] + inside)
            value[node] = best


@njit(cache=True)
def relaxed_path(layers: Layers, worth: Worth, price: float, value: Floats) -> tuple[NDArray[np.bool_], float]:
    """A path that attains `relaxed_values` (which groups are in, by layer), and its load."""
    child, moved = layers.child, layers.moved
    count = len(layers.layer) - 2
    inside = np.zeros(count, np.bool_)
    node = 0
    load = 0.0
    for i in range(count):
        out, into = child[node, 0], child[node, 1]
        worth_out = value[out] - price * moved[node, 0] if out >= 0 else -np.inf
        worth_in = value[into] - price * (moved[node, 1] + worth.load[i]) + worth.gain[i] if into >= 0 else -np.inf
        if worth_in > worth_out:
            inside[i] = True
            load += moved[node, 1] + worth.load[i]
            node = into
        else:
            load += moved[node, 0]
            node = out
    return inside, load


@njit(cache=True)
def best_within(search: Search, most: int, many: int, crowded: int) -> tuple[float, NDArray[np.bool_]]:
    """(a bound on the gain of the paths sought, some such paths).

    Label setting: per node the undominated labels, less those that cannot reach a gain above the threshold (the
    bound is never below it). Paths: [at most ``many``, layers], most valuable first; none if nothing exceeds the
    threshold. crowded: GIVE_UP, JOIN or DROP where there are more than ``most`` labels.
    """
    layer = search.layers.layer
    count = len(layer) - 2
    nothing = np.zeros((0, count), np.bool_)
    share = max(most // max(count, 1), 4 * np.max(np.diff(layer)))  # a node keeps at least one label
    room, widest = share * count + 2, np.max(np.diff(search.layers.arcs_start))
    labels = Labels(
        np.empty(room), np.empty(room), np.empty(room), np.empty(room, np.int64), np.zeros(layer[-1] + 1, np.int64),
        np.empty(widest, np.int64), np.empty(widest, np.int64),
    )  # fmt: skip
    labels.load[0], labels.value[0], labels.held[0], labels.parent[0] = 0.0, 0.0, 0.0, -1
    labels.first[1] = 1
    total = 1
    # Also where the threshold is 0: twice nothing stays nothing.
    finest = max(1e-6 * search.threshold, 1e-9 * np.sum(np.abs(search.worth.gain)), 1e-300)
    coarse = 0.0  # gains this close are joined
    for i in range(count):
        begin = total
        end = room - 1 if crowded == GIVE_UP else begin + share
        step = coarse * 0.5
        while True:  # again with coarser steps until the labels of this layer have room
            total = begin
            for node in range(layer[i + 1], layer[i + 2]):
                total = _fill(node, i, total, end, step, crowded == DROP, labels, search)
                if total < 0:
                    break
            if total >= 0:
                break
            if crowded == GIVE_UP:
                return np.inf, nothing
            step = max(2 * step, finest)
        coarse = max(coarse, step)
        if total == begin:
            return search.threshold, nothing
    begin = labels.first[layer[count]]
    ranked = begin + np.argsort(-labels.value[begin:total])
    shown = min(many, total - begin)
    paths = np.zeros((shown, count), np.bool_)
    for f in range(shown):
        at = ranked[f]
        for i in range(count - 1, -1, -1):
            paths[f, i] = labels.parent[at] & 1
            at = labels.parent[at] >> 1
    return max(search.threshold, labels.value[ranked[0]]), paths


@njit(cache=True)
def _fill(node: int, i: int, total: int, end: int, step: float, drop: bool, labels: Labels, search: Search) -> int:
    """Label a node of layer i + 1 from its sources, from label ``total`` on; the labels then, -1 if over ``end``.

    step: where it is positive, a label that gains at most this more than the last is dropped, or joined to it.
    """
    load, value, held, parent, first, at, until = labels
    layers, worth, outlook, limit, cap, threshold = search
    arcs = layers.arcs[layers.arcs_start[node] : layers.arcs_start[node + 1]]
    moved, prices, to_end = layers.moved, outlook.prices, outlook.values[:, node]
    gain_in, load_in, held_in, lightest_end = worth.gain[i], worth.load[i], worth.held[i], outlook.least[node]
    for a in range(len(arcs)):
        at[a], until[a] = first[arcs[a] >> 1], first[(arcs[a] >> 1) + 1]
    begin = total
    base = -np.inf  # the gain of the last label that was not joined
    while True:
        chosen = -1  # of the labels left of all sources, the one that is lightest here
        load_here = np.inf
        for a in range(len(arcs)):
            if at[a] < until[a]:
                arc = arcs[a]
                through = load[at[a]] + moved[arc >> 1, arc & 1] + (arc & 1) * load_in
                if through < load_here:
                    load_here = through
                    chosen = a
        if chosen < 0 or load_here + lightest_end > limit:
            break
        decision, source = arcs[chosen] & 1, at[chosen]
        at[chosen] += 1
        value_here = value[source] + decision * gain_in
        held_here = held[source] + decision * held_in
        is_of_use = held_here <= cap
        for other in range(total - 1, max(begin, total - LOOK_BACK) - 1, -1):  # which are no heavier
            is_of_use = is_of_use and not (value_here <= value[other] and held_here >= held[other])
        for p in range(len(prices)):
            is_of_use = is_of_use and value_here + to_end[p] + prices[p] * (limit - load_here) > threshold
        if not is_of_use:
            continue
        if step > 0.0 and total > begin and value_here <= base + step:
            if drop:
                continue
            total -= 1  # joined: the load and bytes of the lighter, the gain of the better
            load_here = load[total]
            held_here = min(held_here, held[total])
            value_here = max(value_here, value[total])
        else:
            base = value_here
        if total >= end:
            return -1
        load[total], value[total], held[total], parent[total] = load_here, value_here, held_here, 2 * source + decision
        total += 1
    first[node + 1] = total
    return total
