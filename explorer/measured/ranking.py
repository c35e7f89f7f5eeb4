"""Whether predictions put plans in the order in which they ran."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from solvers.errors import InvalidProblem


def rank_agreement(predicted: Sequence[float], measured: Sequence[float]) -> float:
    """Spearman's rank correlation, -1 to 1; equal values share the mean of their ranks.

    NaN where all predicted or all measured values are equal, since there is no order to agree with. Raises
    InvalidProblem unless there are at least two plans, as many predictions as measurements, all finite.
    """
    if len(predicted) != len(measured) or len(predicted) < 2:
        raise InvalidProblem(
            f"a ranking needs at least two plans with both values, found {len(predicted)} predicted and"
            f" {len(measured)} measured"
        )
    if not all(map(math.isfinite, [*predicted, *measured])):
        raise InvalidProblem("a ranking needs finite values")
    a, b = (_ranks(values) for values in (predicted, measured))
    a, b = a - a.mean(), b - b.mean()
    spread = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / spread if spread else math.nan


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Places from the least up, ties averaged."""
    _, group, times = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return (last - (times - 1) / 2)[group]
