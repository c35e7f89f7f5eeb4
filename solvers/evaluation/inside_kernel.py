"""What a stage does in turn with every micro-batch, on plain arrays."""

from __future__ import annotations

import numpy as np
from numba import njit

from solvers.evaluation.tasks import F, I, U, Units, W
from solvers.kernels.arrays import Ints


@njit(cache=True)
def pairs_inside_stages(units: Units) -> Ints:
    """Pairs of units of a stage that run as a whole, of which the second waits for the first, [pairs, 2]: forward
    before backward before update, gradients of inputs before those of parameters."""
    count = len(units.stage)
    pairs, n = np.empty((10 * count, 2), np.int64), 0
    for a in range(count):
        b = a + 1  # the units of a stage follow one another, kind by kind
        while b < count and units.stage[b] == units.stage[a] and units.operator[a] < 0:
            first, second = units.kind[a], units.kind[b]
            if units.operator[b] < 0 and (first == F or second == U or (first == I and second == W)):
                pairs[n, 0], pairs[n, 1] = a, b
                n += 1
            b += 1
    return pairs[:n]
