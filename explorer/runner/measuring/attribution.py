"""From moments on a clock to seconds of operators. No torch here.

A measurement is a list of marks, (operator, moment): from its mark until the next one the time is that
operator's. So nothing is lost or counted twice: the operators together take what the whole took.
"""

from __future__ import annotations

from collections.abc import Sequence

CALM = 0.25
"""The quantile of an operator's times that counts, the lower quartile: what it takes when nothing else disturbs
it, and not the one lucky time. Each operator by itself: on a busy machine no repetition of the whole is free
of disturbance, but every operator is in a quarter of them. That makes their sum too small (times are skewed: with
means in place of quartiles it is not), so operators count by their share of the whole (`costs.measured.to_wholes`);
how far apart the two were is stated (`profile.WholeTimes.residual`)."""
OUTSIDE = -1
"""The operator of marks that belong to none. Before the first node of a backward autograd counts what waits
for what, which takes as long as there are nodes: such time is divided evenly among all marks."""


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


def calm(seconds: Sequence[float]) -> float:
    """The lower quartile."""
    return _quantile(sorted(seconds), CALM)


def settle(repetitions: Sequence[Sequence[float]]) -> tuple[list[float], list[float]]:
    """(seconds, spread) of every operator over repetitions of the whole; see `profile.OperatorTimes`."""
    columns = [sorted(column) for column in zip(*repetitions, strict=True)]
    seconds = [_quantile(column, CALM) for column in columns]
    middles = [_quantile(column, 0.5) for column in columns]
    return seconds, [middle / calm - 1.0 if calm > 0 else 0.0 for middle, calm in zip(middles, seconds, strict=True)]


def _quantile(ascending: Sequence[float], share: float) -> float:
    at = share * (len(ascending) - 1)
    low = int(at)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (at - low) * (ascending[high] - ascending[low])


def divide(total_s: float, alone: Sequence[float], weights: Sequence[float]) -> list[float]:
    """``total_s`` in parts as the times ``alone`` are to one another, or as ``weights`` where these are all 0."""
    parts = list(alone) if sum(alone) > 0 else list(weights)
    whole = sum(parts)
    return [total_s * part / whole for part in parts] if whole > 0 else [total_s / len(parts)] * len(parts)
