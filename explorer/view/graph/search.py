"""How a search went: objective and proved bound over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from explorer.view.plan_types import Step
from solvers.formats.json_text import finite_or_none
from solvers.plan.result import Progress

MOST = 400
"""Steps kept. Of more, the first and the last are, and the others evenly."""
HIGHEST = 2.0
"""First plans further above the last one than this factor are cut off at it: they would flatten the rest."""
FAR = 0.5
"""A bound below this share of the best plan is stated in words, not drawn to scale."""


def step(progress: Progress) -> Step:
    objective_s, bound_s = finite_or_none(progress.objective_s), finite_or_none(progress.bound_s)
    return progress.elapsed_s, objective_s, bound_s, progress.note, progress.member


def thinned(trace: Sequence[Progress], most: int = MOST) -> list[Step]:
    """At most ``most`` steps of a search."""
    return evenly([step(progress) for progress in trace], most)


def evenly(steps: Sequence[Step], most: int = MOST) -> list[Step]:
    """At most ``most`` of the steps, the first and the last among them."""
    if len(steps) <= most:
        return list(steps)
    return [steps[round(i * (len(steps) - 1) / (most - 1))] for i in range(most)]


class Curve(TypedDict):
    """See `curve`."""

    objective: list[list[float]]
    bound: list[list[float]]
    marks: list[list[float]]
    low_s: float
    high_s: float
    end_s: float
    bound_below: bool
    plans: int
    first_s: float | None
    best_s: float | None
    bound_s: float


def curve(steps: Sequence[Step], elapsed_s: float | None = None) -> Curve:
    """What the chart of a search draws, all as shares of its frame: objective and bound as corners (x to the
    right, y upwards) of staircases, marks (a plan each). low_s, high_s: what bottom and top stand for;
    end_s: what the right edge does. bound_below: whether the bound is below the frame; plans: how many there
    were; first_s and best_s: of the plans, None without any; bound_s."""
    end_s = max([s[0] for s in steps] + [elapsed_s or 0.0, 1e-3])
    points = [(s[0], s[1]) for s in steps if s[1] is not None]
    bounds = [(s[0], s[2] or 0.0) for s in steps]
    best_s = min((objective for _, objective in points), default=None)
    bound_s = max((bound for _, bound in bounds), default=0.0)
    first_s = points[0][1] if points else None
    top = min(max(o for _, o in points), HIGHEST * best_s) if points and best_s else bound_s or 1.0
    far = best_s is not None and bound_s < FAR * best_s
    bottom = best_s - 0.6 * max(top - best_s, 0.05 * best_s) if far and best_s is not None else bound_s
    room = (top - bottom) or top or 1.0
    low_s, high_s = max(0.0, bottom - 0.06 * room), top + 0.08 * room

    def up(value: float) -> float:
        return round(min(1.0, max(0.0, (value - low_s) / (high_s - low_s))), 4)

    plans: list[tuple[float, float]] = []
    for at, objective in points:
        if not plans or objective < plans[-1][1]:
            plans.append((at, objective))
    return {
        "objective": _stairs([(at / end_s, up(value)) for at, value in plans]),
        "bound": [] if not bound_s or far else _stairs([(at / end_s, up(value)) for at, value in bounds if value]),
        "marks": [[round(at / end_s, 4), up(value)] for at, value in plans],
        "low_s": low_s,
        "high_s": high_s,
        "end_s": end_s,
        "bound_below": bool(bound_s) and far,
        "plans": len(plans),
        "first_s": first_s,
        "best_s": best_s,
        "bound_s": bound_s,
    }


def _stairs(points: Sequence[tuple[float, float]]) -> list[list[float]]:
    """Corners of a staircase through the points that goes on to the right edge; a point is a change."""
    corners: list[list[float]] = []
    for x, y in points:
        if corners and corners[-1][1] == y:
            continue
        if corners:
            corners.append([round(x, 4), corners[-1][1]])
        corners.append([round(x, 4), y])
    if corners:
        corners.append([1.0, corners[-1][1]])
    return corners
