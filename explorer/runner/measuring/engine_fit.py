"""From what empty scripts took to what a step, a message and a byte of it take. No torch here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from explorer.costs.least_squares import coefficients
from solvers.problem.engine import Duty, EngineCosts


@dataclass(frozen=True, slots=True)
class Ran:
    """One iteration of an empty script on one rank: how many forwards and backwards, what it sent and received in all,
    and the seconds it took."""

    forwards: float
    backwards: float
    messages: Duty
    seconds: float

    @property
    def counts(self) -> tuple[float, ...]:
        """Of everything that `EngineCosts` has a cost of, in its order."""
        sent = self.messages
        return (
            1.0, self.forwards, self.backwards, sent.sent, sent.received, sent.sent_bytes, sent.received_bytes,
        )  # fmt: skip


def fit(runs: Sequence[Ran]) -> tuple[EngineCosts, float]:
    """(costs, root mean square of the relative errors): the least sum of squared relative errors with no cost below
    0. Raises ValueError without runs
    that took any time."""
    if not runs or min(run.seconds for run in runs) <= 0:
        raise ValueError("a fit needs runs that took some time")
    counts, seconds = np.array([run.counts for run in runs]), np.array([run.seconds for run in runs])
    costs = coefficients(counts, seconds, share_alike=True)
    residual = math.sqrt(float(np.mean((counts @ costs / seconds - 1) ** 2)))
    return EngineCosts(*(float(cost) for cost in costs)), residual
