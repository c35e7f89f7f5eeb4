"""The longest makespan that can be ruled out, with a stated effort."""

from __future__ import annotations

import math
from collections.abc import Callable

from solvers.makespan_bounds.refute import Effort, Refuter, beliefs
from solvers.makespan_bounds.shape import PassShape

TRIES = 12


def improved_s(shape: PassShape, low: float, upper_s: float, check: Callable[[], None], effort: float) -> float:
    if not math.isfinite(upper_s) or low >= upper_s:
        return low
    high = upper_s
    start = beliefs(shape)
    for _ in range(TRIES):
        middle = (low + high) / 2
        refuter = Refuter(shape, Effort(effort / TRIES, check))
        if refuter.refutes(middle, start):
            low = middle
        else:
            high = middle
    return low
