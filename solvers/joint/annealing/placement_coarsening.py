"""Nested sets of groups that a search places as one, from a few large ones to single groups.

Plans are always timed on the fine graph, so the sets need not form an acyclic graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.joint.lists.grouping import seconds_between
from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Floats, Ints

SIZES = (16, 40, 100, 300)
"""Numbers of sets that are aimed at, besides single groups."""

SPREAD = 1.6
"""A level is left out if it has not so many times the sets of the one before."""

LARGEST = 2.0
"""Work of a set, at most, as a multiple of an even share of all work."""


@dataclass(frozen=True)
class GroupEdges:
    """Pairs of groups between which something travels, each once, the first the lower.

    ends: [edges, 2]. seconds: of all their messages, averaged over links, plus what keeps edges that cost
    nothing from vanishing.
    """

    ends: Ints
    seconds: Floats


def group_edges(model: PassModel) -> GroupEdges:
    """The edges between the groups of a model, in ascending order."""
    weight = seconds_between(model)
    pairs = sorted(weight)
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    seconds = np.array([weight[pair] for pair in pairs])
    least = float(seconds.mean()) / 100 if len(seconds) and seconds.any() else 1.0
    return GroupEdges(ends, seconds + least)


def coarsenings(model: PassModel, edges: GroupEdges, sizes: tuple[int, ...] = SIZES) -> list[Ints]:
    """Of every level, coarsest first, the set of every group, [groups]; the last has every group by itself.

    Heavy edges are matched first (Karypis and Kumar 1998), by seconds of transfer per second of work, unless the
    set became larger than `LARGEST` even shares or no device could run all of it.
    """
    groups = len(model.groups)
    work = np.array([model.mean_s[list(group)].sum() for group in model.groups])
    of = np.arange(groups)
    levels = [of]
    for size in sorted(sizes, reverse=True):
        if size * SPREAD > _count(levels[-1]):
            continue
        of = _merged(of, size, work, model.allowed, edges)
        if _count(of) * SPREAD <= _count(levels[-1]):
            levels.append(of)
    return levels[::-1]


def _count(of: Ints) -> int:
    return int(of.max()) + 1


def _merged(of: Ints, size: int, work: Floats, allowed: NDArray[np.bool_], edges: GroupEdges) -> Ints:
    """The sets ``of`` matched in rounds until there are about ``size``."""
    most = LARGEST * float(work.sum()) / size
    while (count := _count(of)) > size:
        load = np.bincount(of, work, count)
        able = np.ones((count, allowed.shape[1]), bool)
        np.logical_and.at(able, of, allowed)
        pairs, seconds = _between(of, edges, count)
        score = seconds / (load[pairs[:, 0]] + load[pairs[:, 1]] + most / 100)
        mate = np.arange(count)
        left = count - size
        for e in np.lexsort((pairs[:, 1], pairs[:, 0], -score)).tolist():
            u, v = int(pairs[e, 0]), int(pairs[e, 1])
            if mate[u] != u or mate[v] != v or load[u] + load[v] > most or not (able[u] & able[v]).any():
                continue
            mate[u], mate[v] = v, u
            left -= 1
            if left == 0:
                break
        if left == count - size:
            return of
        _, of = np.unique(np.minimum(mate, np.arange(count))[of], return_inverse=True)
        of = of.astype(np.int64)
    return of


def _between(of: Ints, edges: GroupEdges, count: int) -> tuple[Ints, Floats]:
    """(pairs of sets, seconds between them)."""
    low = np.minimum(of[edges.ends[:, 0]], of[edges.ends[:, 1]])
    high = np.maximum(of[edges.ends[:, 0]], of[edges.ends[:, 1]])
    across = low != high
    codes, index = np.unique(low[across] * count + high[across], return_inverse=True)
    seconds: Floats = np.bincount(index, edges.seconds[across], len(codes)).astype(np.float64)
    return np.stack([codes // count, codes % count], axis=1), seconds
