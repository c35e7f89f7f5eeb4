"""PipeDream's dynamic program (Narayanan et al., SOSP 2019, section 3.1) over downsets of the operators."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints, Words
from solvers.kernels.lazy import njit


class Sums(NamedTuple):
    """Totals over the operators of every downset, smaller downsets first, [downsets]."""

    words: Words
    compute_s: Floats
    activation_bytes: Floats
    param_bytes: Floats


class Table(NamedTuple):
    """States of PipeDream's program, [downsets, machines + 1], smaller downsets first.

    best: least bottleneck in seconds when the downset runs on exactly so many machines, inf where it cannot; 0 at
    [0, 0]. came_from, used: the downset before the last stage and that stage's machines. counts: [2] states filled in
    and relaxations tried, added to.
    """

    best: Floats
    came_from: Ints
    used: Ints
    counts: Ints


@njit(cache=True)
def bottlenecks(
    sums: Sums, bandwidth: float, memory_bytes: float, may: Bools, table: Table, begin: int, end: int
) -> None:
    """Fill in rows ``begin`` to ``end`` of the table.

    may: whether a stage may run on so many machines, [machines + 1]. Not `walk_kernel`'s walk: a stage's time is a
    difference of totals and no bound ends a branch, so all pairs of downsets are compared, as published.
    """
    words, compute_s, activation_bytes, param_bytes = sums
    best, came_from, used, counts = table
    machines = best.shape[1] - 1
    for i in range(max(begin, 1), end):
        for j in range(i):
            inside = True
            for w in range(words.shape[1]):
                if words[j, w] & ~words[i, w]:
                    inside = False
                    break
            if not inside:
                continue
            work = compute_s[i] - compute_s[j]
            params = param_bytes[i] - param_bytes[j]
            held = activation_bytes[i] - activation_bytes[j] + params
            for r in range(1, machines + 1):
                if not may[r]:
                    continue
                stage_s = (work + 4.0 * (r - 1) * params / (bandwidth * r)) / r
                for m in range(r, machines + 1):
                    before = best[j, m - r]
                    if before == np.inf:
                        continue
                    counts[1] += 1
                    value = max(before, stage_s)
                    if value >= best[i, m]:
                        continue
                    # The stages behind hold as many micro-batches as there are machines for each of this one's.
                    if -((m - machines) // r) * held > memory_bytes:
                        continue
                    if best[i, m] == np.inf:
                        counts[0] += 1
                    best[i, m] = value
                    came_from[i, m] = j
                    used[i, m] = r
