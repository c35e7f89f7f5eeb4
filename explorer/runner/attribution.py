"""From moments on a clock to seconds of operators. No torch here.

A measurement is a list of marks, (operator, moment): from its mark until the next one the time is that
operator's. So nothing is lost or counted twice: the operators together take what the whole took.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

QUIET_SHARE = 0.25
"""Of the repetitions, the fastest: their means are the times of a profile. Means, because these add up to
what the whole took in those repetitions; the least time of each operator by itself would not."""
LEAST_QUIET = 3
OUTSIDE = -1
"""The operator of marks that belong to none. Before the first node of a backward autograd counts what waits
for what, which takes as long as there are nodes: such time is shared out evenly among all marks."""


def attribute(marks: Sequence[tuple[int, float]], end: float, count: int, mark_s: float = 0.0) -> list[float]:
    """Seconds of each of ``count`` operators between their marks and the next ones, ``end`` being the last.

    mark_s: what setting one mark takes, which is taken off; a time never falls below 0.
    """
    lengths = [
        max(0.0, (marks[at + 1][1] if at + 1 < len(marks) else end) - moment - mark_s)
        for at, (_, moment) in enumerate(marks)
    ]
    owned = [at for at, (operator, _) in enumerate(marks) if operator != OUTSIDE]
    shared = sum(lengths[at] for at in range(len(marks)) if marks[at][0] == OUTSIDE)
    seconds = [0.0] * count
    for at in owned:
        seconds[marks[at][0]] += lengths[at] + shared / len(owned)
    return seconds


def quiet(totals: Sequence[float]) -> list[int]:
    """Which repetitions count: a quarter of them, the fastest, but at least three where there are."""
    order = sorted(range(len(totals)), key=lambda i: (totals[i], i))
    return sorted(order[: max(LEAST_QUIET, round(len(totals) * QUIET_SHARE))])


def settle(repetitions: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """(seconds, spread) of every operator over repetitions of the whole; see `profile.OperatorTimes`."""
    kept = quiet([sum(row) for row in repetitions])
    seconds = [fmean(repetitions[i][k] for i in kept) for k in range(len(repetitions[0]))]
    spread = [
        max(0.0, median(row[k] for row in repetitions) / best - 1.0) if best > 0 else 0.0
        for k, best in enumerate(seconds)
    ]
    return seconds, spread


def divide(total_s: float, alone: Sequence[float], weights: Sequence[float]) -> list[float]:
    """``total_s`` in parts as the times ``alone`` are to one another, or as ``weights`` where these are all 0."""
    parts = list(alone) if sum(alone) > 0 else list(weights)
    whole = sum(parts)
    return [total_s * part / whole for part in parts] if whole > 0 else [total_s / len(parts)] * len(parts)
