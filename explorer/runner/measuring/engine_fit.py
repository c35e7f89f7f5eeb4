"""From what empty scripts took to what a step, a message and a byte of it take. No torch here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

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
    rows = np.array([run.counts for run in runs]) / np.array([[run.seconds] for run in runs])
    costs = _not_negative(rows, np.ones(len(rows)))
    residual = math.sqrt(float(np.mean((rows @ costs - 1) ** 2)))
    return EngineCosts(*(float(cost) for cost in costs)), residual


def _not_negative(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """x >= 0 with the least |rows x - values|: of every choice of columns left out, the best whose solution is not
    negative (there are few columns)."""
    best, found = math.inf, np.zeros(rows.shape[1])
    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    for kept in _choices(rows.shape[1]):
        x = np.zeros(rows.shape[1])
        if kept:
            x[kept] = np.linalg.lstsq(rows[:, kept] / scale[kept], values, rcond=1e-9)[0] / scale[kept]
        if (x < 0).any():
            continue
        off = float(np.square(rows @ x - values).sum())
        if off < best * (1 - 1e-12):
            best, found = off, x
    return found


def _choices(columns: int) -> Iterable[list[int]]:
    """Every set of columns, the largest first."""
    masks = sorted(range(2**columns), key=lambda mask: (-mask.bit_count(), mask))
    return ([at for at in range(columns) if mask >> at & 1] for mask in masks)
