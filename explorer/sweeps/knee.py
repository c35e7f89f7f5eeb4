"""Where a curve bends: up to there more helps a lot, beyond it little."""

from __future__ import annotations

from collections.abc import Sequence

LEAST = 0.05
"""How far below the straight line between its ends a curve has to be, both scaled to 1, to have a knee at all."""


def knee(values: Sequence[float], times: Sequence[float | None]) -> int | None:
    """The position of the point furthest below the line from the first to the last one (Satopää et al., "Finding a
    Kneedle in a Haystack", 2011), None for a curve that is about straight.

    values: what is varied, ascending. times: what is to be small; None where there is none, and the best so far counts.
    """
    points: list[tuple[int, float]] = []
    for position, time in enumerate(times):
        if time is not None:
            points.append((position, min(time, points[-1][1]) if points else time))
    if len(points) < 3 or points[0][1] <= points[-1][1]:
        return None
    (begin, high), (end, low) = points[0], points[-1]
    wide = values[end] - values[begin]
    below = {
        position: (high - time) / (high - low) - (values[position] - values[begin]) / wide for position, time in points
    }
    best = max(below, key=below.__getitem__)
    return best if below[best] > LEAST else None
