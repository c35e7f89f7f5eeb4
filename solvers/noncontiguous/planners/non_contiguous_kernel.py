"""Every placement of a few super-operators, one move apart from the one before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.uncounted import uncounted
from solvers.noncontiguous.set_moves_kernel import Sets, State, excess, max_load, move


class Tour(NamedTuple):
    """Where an enumeration stands: a reflected Gray code with one digit, its device, a node (Knuth, The Art of Computer
    Programming 4A, 7.2.1.1, algorithm H)."""

    focus: Ints  # [nodes + 1], Knuth's focus pointers
    direction: Ints  # [nodes], 1 or -1, to which device each goes next
    misplaced: Ints  # [1], nodes where they cannot run
    best: Floats  # [1], s
    best_where: Ints  # [nodes]


def new_tour(sets: Sets) -> Tour:
    """A tour that begins where all nodes are on device 0; the state must be placed so."""
    nodes = len(sets.held)
    misplaced = np.array([np.count_nonzero(~sets.allowed[:, 0])], np.int64)
    return Tour(
        np.arange(nodes + 1), np.ones(nodes, np.int64), misplaced, np.full(1, np.inf), np.zeros(nodes, np.int64)
    )


@uncounted
def tour(sets: Sets, at: State, on: Tour, quota: int) -> bool:
    """Go on for ``quota`` placements; False at the end. best: the least max-load of those that fit."""
    nodes, devices = len(at.where), len(sets.cap)
    for _ in range(quota):
        if on.misplaced[0] == 0 and max_load(at) < on.best[0] and excess(sets, at) == 0.0:
            on.best[0] = max_load(at)
            for v in range(nodes):
                on.best_where[v] = at.where[v]
        v = on.focus[0]
        on.focus[0] = 0
        if v == nodes or devices == 1:
            return False
        a = at.where[v]
        b = a + on.direction[v]
        on.misplaced[0] += np.int64(sets.allowed[v, a]) - np.int64(sets.allowed[v, b])
        move(sets, at, v, b)
        if b == 0 or b == devices - 1:
            on.direction[v] = -on.direction[v]
            on.focus[v] = on.focus[v + 1]
            on.focus[v + 1] = v + 1
    return True
