"""Simulated annealing over sets of super-operators: single moves, swaps, and whole clusters at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.uncounted import inlined, uncounted
from solvers.noncontiguous.set_moves_kernel import (
    ANY,
    NOWHERE,
    Random,
    Sets,
    State,
    below,
    draw,
    excess,
    excess_then,
    is_contiguous,
    make_move,
    max_load,
    move,
    seat_elsewhere,
    smooth_load_then,
    try_move,
)

SINGLES, CLUSTERS = 0.6, 0.75
"""Share of moves of a single node, and of moves of clusters in the others, which are swaps otherwise."""
BETTER = 1e-12
"""Relative improvement below which a placement is not better, but rounded otherwise."""


class Walk(NamedTuple):
    """One walk, so that it can be left and taken up again.

    Cluster i is ``cluster[cluster_start[i]:cluster_start[i + 1]]``.
    """

    temperature: Floats  # [2], s now, and its factor per step
    smooth: Floats  # [2], weight of the 4-norm of the loads, and s that a whole device of excess memory costs
    value: Floats  # [1], s, of the placement now
    best: Floats  # [1], s, the least max-load of a placement that fits
    best_where: Ints  # [nodes], that placement
    cluster_start: Ints  # [clusters + 1]
    cluster: Ints  # nodes
    rng: Random  # [1], the state of the generator
    moved: Ints  # [at least nodes], scratch: nodes of a move of several
    to: Ints  # [at least nodes], scratch: the device of each, then the one it was on
    marks: Bools  # [nodes], scratch
    kept_parts: Floats  # [3, passes, devices], scratch: `State.parts` before a move of several
    kept_load: Floats  # [passes, devices], scratch: `State.load` before it


def new_walk(sets: Sets, cluster_start: Ints, cluster: Ints, seed: int) -> Walk:
    """A walk that has not begun; temperature, smooth and value are for the caller to set."""
    passes, devices, nodes = sets.seconds.shape
    most = max(nodes, 2)  # a swap notes its two nodes, or one twice, before it is looked at
    return Walk(
        np.zeros(2),
        np.zeros(2),
        np.zeros(1),
        np.full(1, np.inf),
        np.zeros(nodes, np.int64),
        cluster_start,
        cluster,
        np.array([2 * seed + 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF | 1], np.uint64),
        np.zeros(most, np.int64),
        np.zeros(most, np.int64),
        np.zeros(nodes, np.bool_),
        np.zeros((3, passes, devices)),
        np.zeros((passes, devices)),
    )


@inlined
def _device_nearby(sets: Sets, at: State, v: int, rng: Random) -> int:
    """The device of a node that shares a message with ``v``, or any device if there is none."""
    first, end = sets.of_start[v], sets.of_start[v + 1]
    if end > first:
        m = sets.of[first + below(rng, end - first)]
        first, end = sets.on_start[m], sets.on_start[m + 1]
        nearby: int = at.where[sets.on[first + below(rng, end - first)]]
        return nearby
    return below(rng, len(sets.cap))


@inlined
def _any_node(sets: Sets, at: State, rng: Random) -> int:
    """A node, half of the time one on the busiest device (of a pass)."""
    if draw(rng) < 0.5:
        p, busiest = below(rng, len(at.load)), 0
        for d in range(1, at.load.shape[1]):
            if at.load[p, d] > at.load[p, busiest]:
                busiest = d
        if at.sizes[busiest] > 0:
            member: int = at.members[busiest, below(rng, at.sizes[busiest])]
            return member
    return below(rng, len(at.where))


@inlined
def _copy(parts: Floats, load: Floats, to_parts: Floats, to_load: Floats) -> None:
    for p in range(load.shape[0]):
        for d in range(load.shape[1]):
            to_load[p, d] = load[p, d]
            for part in range(3):
                to_parts[part, p, d] = parts[part, p, d]


@inlined
def _improved(at: State, walk: Walk, over: float) -> None:
    if over == 0.0 and max_load(at) < walk.best[0] * (1 - BETTER):
        walk.best[0] = max_load(at)
        for v in range(len(at.where)):
            walk.best_where[v] = at.where[v]


@inlined
def _single(sets: Sets, at: State, walk: Walk, over: float, threshold: float) -> float:
    """Try one node on another device; the excess then. (One way out: returns in between cost numba
    a count of references for every array.)"""
    rng, held = walk.rng, at.bytes_held
    v = _any_node(sets, at, rng)
    a = at.where[v]
    b = a
    if draw(rng) < 0.7:
        b = _device_nearby(sets, at, v, rng)
    if b == a:
        b = below(rng, len(held))
    tried = b != a and sets.allowed[v, b]
    then = 0.0
    if tried and (over > 0 or held[b] + sets.held[v] > sets.cap[b]):
        then = excess_then(sets, at, v, b)
        tried = then <= over
    if tried:
        try_move(sets, at, v, b)
        value = smooth_load_then(sets, at, a, b, walk.smooth[0]) + walk.smooth[1] * then
        if value <= threshold:
            make_move(sets, at, v, b)
            if sets.contiguity != ANY and not is_contiguous(sets, at, walk.marks):
                move(sets, at, v, a)
            else:
                over = then
                walk.value[0] = value
                _improved(at, walk, over)
    return over


@inlined
def _pick_cluster(sets: Sets, at: State, walk: Walk) -> int:
    """Choose nodes of a cluster, all or those of one device, and a device for them; how many, or 0."""
    rng, cluster = walk.rng, walk.cluster
    chosen = below(rng, len(walk.cluster_start) - 1)
    first, end = walk.cluster_start[chosen], walk.cluster_start[chosen + 1]
    b = below(rng, len(sets.cap))
    if draw(rng) < 0.6:
        b = _device_nearby(sets, at, cluster[first + below(rng, end - first)], rng)
    only = -1
    if draw(rng) < 0.5:
        only = at.where[cluster[first + below(rng, end - first)]]
    count = 0
    allowed = True
    for i in range(first, end):
        v = cluster[i]
        if at.where[v] != b and (only < 0 or at.where[v] == only):
            allowed = allowed and sets.allowed[v, b]
            walk.moved[count] = v
            walk.to[count] = b
            count += 1
    return count if allowed else 0


@inlined
def _pick_swap(sets: Sets, at: State, walk: Walk) -> int:
    """Choose two nodes for each other's device: 2, or 0."""
    v, w = below(walk.rng, len(at.where)), below(walk.rng, len(at.where))
    a, b = at.where[v], at.where[w]
    walk.moved[0], walk.moved[1] = v, w
    walk.to[0], walk.to[1] = b, a
    return 2 if a != b and sets.allowed[v, b] and sets.allowed[w, a] else 0


@inlined
def _several(sets: Sets, at: State, walk: Walk, over: float, threshold: float) -> float:
    """Try a cluster on one device, or two nodes on each other's; the excess then."""
    if len(walk.cluster_start) > 1 and draw(walk.rng) < CLUSTERS:
        count = _pick_cluster(sets, at, walk)
    else:
        count = _pick_swap(sets, at, walk)
    if count > 0:
        _copy(at.parts, at.load, walk.kept_parts, walk.kept_load)
        for i in range(count):
            v, b = walk.moved[i], walk.to[i]
            walk.to[i] = at.where[v]
            move(sets, at, v, b)
        then = excess(sets, at)
        value = smooth_load_then(sets, at, NOWHERE, NOWHERE, walk.smooth[0]) + walk.smooth[1] * then
        if then <= over and value <= threshold and is_contiguous(sets, at, walk.marks):
            over = then
            walk.value[0] = value
            _improved(at, walk, over)
        else:
            for i in range(count - 1, -1, -1):
                seat_elsewhere(sets, at, walk.moved[i], walk.to[i])
            _copy(walk.kept_parts, walk.kept_load, at.parts, at.load)
    return over


@uncounted
def anneal(sets: Sets, at: State, walk: Walk, steps: int) -> None:
    """Go on with the walk for ``steps`` steps. No move makes the excess of memory grow."""
    over = excess(sets, at)
    walk.value[0] = smooth_load_then(sets, at, NOWHERE, NOWHERE, walk.smooth[0]) + walk.smooth[1] * over
    _improved(at, walk, over)
    for _ in range(steps):
        walk.temperature[0] *= walk.temperature[1]
        # Metropolis, with the random number drawn first: accept a value up to this.
        threshold = walk.value[0] - walk.temperature[0] * np.log(1.0 - draw(walk.rng))
        if draw(walk.rng) < SINGLES:
            over = _single(sets, at, walk, over, threshold)
        else:
            over = _several(sets, at, walk, over, threshold)
