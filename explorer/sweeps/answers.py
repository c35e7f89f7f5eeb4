"""The rows of a sweep, which show themselves as a curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.costs.interval import and_interval
from explorer.sweeps.points import AXES
from explorer.sweeps.sweep import Row
from explorer.view.pictures.card import card, rows
from explorer.view.pictures.picture import Picture
from explorer.view.pictures.shapes import Label, Polygon, Rect, Shape, Stroke
from explorer.view.pictures.time_scale import round_step
from explorer.words import text
from solvers.plan.result import Result

AXIS_WORDS = {"devices": "devices", "micro_batches": "micro-batches", "bandwidth_bytes_per_s": "bandwidth",
              "memory_bytes": "memory cap"}  # fmt: skip
WIDTH, HEIGHT = 620.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 74.0, 20.0, 30.0, 30.0
DOT = 3.0
"""Half the side of a point's mark, in pixels."""
TICKS = 4

Point = tuple[str, float | None, float]
"""What was set, as text; the objective in seconds, None without a plan; and its lower bound in seconds, 0 at worst."""


def curve_picture(points: Sequence[Point], what: str, along: str) -> Picture:
    """Points at equal distances, in their order. what: the objective; along: what is varied. A point without a plan is
    told below the axis."""
    times = [time for _, time, _ in points if time is not None]
    high = max([*times, *(bound for _, _, bound in points)], default=1.0) * 1.08 or 1.0
    bottom = HEIGHT - BOTTOM
    step = (WIDTH - LEFT - RIGHT) / max(1, len(points) - 1)
    xs = [LEFT + i * step if len(points) > 1 else (LEFT + WIDTH - RIGHT) / 2 for i in range(len(points))]

    def y(time: float) -> float:
        return bottom - (bottom - TOP) * time / high

    shapes: list[Shape] = []
    tick = round_step(high / TICKS)
    for i in range(int(high / tick) + 1):
        shapes.append(Stroke(((LEFT, y(i * tick)), (WIDTH - RIGHT, y(i * tick))), "grid"))
        shapes.append(Label(LEFT - 8, y(i * tick), text.seconds(i * tick), "quiet", 10.5, "end"))
    bounds = [(x, y(bound)) for x, (_, _, bound) in zip(xs, points, strict=True) if bound > 0]
    found = [(x, y(time)) for x, (_, time, _) in zip(xs, points, strict=True) if time is not None]
    if len(bounds) > 1:
        shapes.append(Polygon((*((x, bottom) for x in (bounds[0][0],)), *bounds, (bounds[-1][0], bottom)), "lane"))
        shapes.append(Stroke(tuple(bounds), "accent", 1.5, dashed=True))
    if len(found) > 1:
        shapes.append(Stroke(tuple(found), "text", 1.8))
    for (name, time, bound), x in zip(points, xs, strict=True):
        shapes.append(Label(x, bottom + 14, name, "quiet", 10.5, "middle"))
        if time is None:
            shapes.append(Label(x, bottom - 9, "no plan", "fail", 10.5, "middle", halo="background"))
            continue
        title = f"{name}: {text.seconds(time)}, bound {text.seconds(bound)}"
        shapes.append(Rect(x - DOT, y(time) - DOT, 2 * DOT, 2 * DOT, "text", radius=DOT, title=title))
        shapes.append(Label(x, y(time) - 11, text.seconds(time), "text", 10.5, "middle", halo="background"))
    shapes.append(Label(8, 12, f"{what} by {along}", "text", 11.5, bold=True))
    shapes.append(Label(WIDTH - RIGHT, 12, "dashed: lower bound", "quiet", 10.5, "end"))
    return Picture(tuple(shapes), WIDTH, HEIGHT, f"{what} by {along}: {text.plural(len(points), 'point')}", 0)


class Sweep(tuple[Row, ...]):
    """Rows in the order in which they were asked."""

    __slots__ = ()

    def curve(self) -> Picture | None:
        """The objective and its lower bound along the one axis that varies; None where several do, or no row has a
        plan."""
        varied = [axis for axis in AXES if len({getattr(row.point, axis) for row in self}) > 1]
        solved = [row.result for row in self if row.result is not None and row.plan is not None]
        if len(varied) > 1 or not solved:
            return None
        axis = varied[0] if varied else next(a for a in AXES if getattr(self[0].point, a) is not None)
        points: list[Point] = [
            (
                row.point.cell(axis),
                None if row.result is None or row.plan is None else row.result.objective_s,
                row.result.bound_s if row.result is not None and text.known(row.result.bound_s) else 0.0,
            )
            for row in sorted(self, key=lambda row: getattr(row.point, axis))
        ]
        objective = solved[0].problem.objective.value
        return curve_picture(points, "Iteration time" if objective == "iteration" else objective, AXIS_WORDS[axis])

    def __str__(self) -> str:
        return "\n".join(": ".join(line[:2]) for line in self._lines())

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("..." if cycle else str(self))

    def _repr_html_(self) -> str:
        table = rows(("", "objective", "bound", "peak memory", "status"), self._lines())
        name = next((row.result.problem.graph.name for row in self if row.result is not None), "")
        return card(f"Sweep of {name}" if name else "Sweep", (), self.curve(), table)

    def _lines(self) -> list[tuple[str, ...]]:
        return [
            (
                row.point.words(),
                text.NOTHING if row.result is None else _seconds(row.result),
                text.NOTHING if row.result is None or not row.result.bound_s else text.seconds(row.result.bound_s),
                text.NOTHING if row.metrics is None else text.nbytes(max(row.metrics.peak_memory_bytes)),
                row.status.lower() + (f": {text.short(row.reason, 60)}" if row.reason else ""),
            )
            for row in self
        ]


def _seconds(result: Result) -> str:
    seconds = result.objective_s
    return text.seconds(seconds) + and_interval(result.problem, result.plan, seconds)
