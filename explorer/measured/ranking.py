"""Whether predictions put plans in the order in which they ran, and whether two plans can be distinguished."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

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


def gain(old: Sequence[Sequence[float]], new: Sequence[Sequence[float]], noise: float) -> float | None:
    """The share of an iteration's time that ``new`` takes less than ``old`` (more, if below 0), or None where nobody
    can tell.

    old, new: of each round, the seconds of its iterations; rounds of the two took turns. noise: variation of a fixed
    piece of work meanwhile, as a share. The plans are apart if every round of the one has a shorter median than every
    round of the other, and the medians over all differ by more than the noise.
    """
    before, after = ([median(times) for times in rounds if times] for rounds in (old, new))
    if not before or not after:
        return None
    shorter = max(after) < min(before)
    longer = min(after) > max(before)
    share = 1 - median(time for times in new for time in times) / median(time for times in old for time in times)
    return share if (shorter or longer) and abs(share) > noise else None
