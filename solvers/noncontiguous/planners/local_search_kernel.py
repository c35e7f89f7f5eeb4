"""Local search over sets of super-operators: the best move of one of them, until none helps."""

from __future__ import annotations

from solvers.kernels.arrays import Bools, Floats
from solvers.kernels.uncounted import inlined, uncounted
from solvers.noncontiguous.set_moves_kernel import (
    ANY,
    Sets,
    State,
    excess,
    excess_then,
    is_contiguous,
    max_load,
    move,
    smooth_load_then,
    try_move,
)

BETTER = 1e-9
"""Relative improvement that counts: less is rounding."""


@inlined
def _keeps_contiguous(sets: Sets, at: State, v: int, b: int, marks: Bools) -> bool:
    """Whether the sets are still as contiguous as asked after moving ``v`` to ``b``."""
    if sets.contiguity == ANY:
        return True
    a = at.where[v]
    move(sets, at, v, b)
    contiguous = is_contiguous(sets, at, marks)
    move(sets, at, v, a)
    return contiguous


@uncounted
def descend(sets: Sets, at: State, first: bool, marks: Bools, value: Floats, quota: int) -> bool:
    """Make moves until none improves (False) or about ``quota`` were tried (True: call again).

    first: take the first move that improves, not the best. An excess of memory is reduced before
    anything else. value: [2] excess and max-load, set at the end. marks: [nodes], scratch.
    """
    devices, nodes = len(sets.cap), len(at.where)
    tried = 0
    while tried < quota:
        over, now = excess(sets, at), max_load(at)
        value[0], value[1] = over, now
        best_over, best = over, now * (1 - BETTER)
        best_v, best_b = -1, -1
        for v in range(nodes):
            a = at.where[v]
            for b in range(devices):
                if b == a or not sets.allowed[v, b]:
                    continue
                tried += 1
                then = excess_then(sets, at, v, b)
                if then > best_over:
                    continue
                try_move(sets, at, v, b)
                load = smooth_load_then(sets, at, a, b, 0.0)
                better = then < best_over or load < best
                if better and _keeps_contiguous(sets, at, v, b, marks):
                    best_over, best, best_v, best_b = then, load, v, b
                    if first:
                        break
            if first and best_v >= 0:
                break
        if best_v < 0:
            return False
        move(sets, at, best_v, best_b)
    value[0], value[1] = excess(sets, at), max_load(at)
    return True
