"""What time goes into: coefficients of counts, none below 0, with the least relative errors."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from solvers.kernels.arrays import Floats

ALIKE = 1e-12
"""Share of the squared errors, and squares a measurement, within which two choices of columns are equally good."""


def coefficients(columns: Floats, seconds: Floats, *, share_alike: bool = False) -> Floats:
    """x >= 0 of least sum of squares of ``columns @ x / seconds - 1``: of every choice of columns that may count (there
    are few of them) the best whose solution is not below 0, and gives every measurement some time; 0 without one.
    Relative, so that long times do not drown short ones.

    columns: measurements x counts. seconds: above 0. share_alike: whether columns that grow together share what is
    theirs; else, of choices that are equally good, that with fewest columns counts, the last columns first.
    """
    rows = columns / seconds[:, None]
    count = rows.shape[1]
    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    choices = [sorted(c) for size in range(1, count + 1) for c in combinations(range(count)[::-1], size)]
    best, solution = np.inf, np.zeros(count)
    for chosen in reversed(choices) if share_alike else choices:
        x = np.zeros(count)
        x[chosen] = np.linalg.lstsq(rows[:, chosen] / scale[chosen], np.ones(len(rows)), rcond=1e-9)[0] / scale[chosen]
        shares = rows @ x
        errors = float(np.square(shares - 1.0).sum())
        if (x >= 0).all() and (shares > 0).all() and errors < best * (1 - ALIKE) - ALIKE * len(rows):
            best, solution = errors, x
    return solution
