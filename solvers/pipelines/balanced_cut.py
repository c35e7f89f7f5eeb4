"""Cut a row of numbers into consecutive parts of nearly equal sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Floats
from solvers.search.work import Work


def balanced_cut(weights: Sequence[float], parts: int) -> tuple[tuple[int, ...], Work]:
    """Where each part ends, and the effort: the least largest sum, and of those cuts the least variance.

    As many parts as are asked for, or as there are weights (>= 0) if they are fewer. Exact, by two
    dynamic programmes over (end, parts).
    """
    count = len(weights)
    parts = min(parts, count)
    total = np.concatenate([[0.0], np.cumsum(np.asarray(weights, np.float64))])
    sums = total[None, :] - total[:, None]  # [begin, end]
    allowed = np.triu(np.ones((count + 1, count + 1), bool), 1)
    largest = _extremes(np.where(allowed, sums, np.inf), parts, np.maximum)[0]
    fits = allowed & (sums <= largest[parts, count] * (1 + 1e-12))
    _, before = _extremes(np.where(fits, sums**2, np.inf), parts, np.add)
    ends = [count]
    for part in range(parts, 1, -1):
        ends.append(int(before[part, ends[-1]]))
    return tuple(reversed(ends)), Work(2 * parts * count, parts * count * (count + 1))


def _extremes(cost: Floats, parts: int, join: np.ufunc) -> tuple[Floats, NDArray[np.int64]]:
    """The least joined cost of so many parts of the first so many, and where the last begins.

    Both [parts + 1, count + 1].
    """
    count = len(cost) - 1
    best = np.full((parts + 1, count + 1), np.inf)
    before = np.zeros((parts + 1, count + 1), np.int64)
    best[0, 0] = 0.0
    for part in range(1, parts + 1):
        values = join(best[part - 1][:, None], cost)
        before[part] = values.argmin(axis=0)
        best[part] = values.min(axis=0)
    return best, before
