"""The rows of a sweep, which show themselves as a curve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from explorer.costs.interval import and_interval
from explorer.sweeps.knee import knee
from explorer.sweeps.points import AXES
from explorer.sweeps.sweep import Row
from explorer.view.graph.palette import device
from explorer.view.pictures.card import card, rows
from explorer.view.pictures.picture import Picture
from explorer.view.pictures.shapes import Label, Polygon, Rect, Shape, Stroke
from explorer.view.pictures.time_scale import round_step
from explorer.words import text
from solvers.plan.result import Result
from solvers.problem.problem import SEVERAL_STAGES, Objective

AXIS_WORDS = {"devices": "devices", "micro_batches": "micro-batches", "bandwidth_bytes_per_s": "bandwidth",
              "memory_bytes": "memory cap", "pipeline": "pipeline", "recompute": "recomputed"}  # fmt: skip
WIDTH, HEIGHT = 620.0, 210.0
LEFT, RIGHT, TOP, BOTTOM = 74.0, 20.0, 30.0, 30.0
TALL = 300.0
"""Height down to the key, where there are several lines."""
KEYS, KEY_WIDE = 6, 92.0
"""Names in a line of the key, and their distance in pixels."""
SPACING = 52.0
"""Pixels between two caps that are both written."""
HUES = 8
"""Lines of different colours; more are dashed."""
DOT = 3.0
"""Half the side of a point's mark, in pixels."""
TICKS = 4

Point = tuple[str, float | None, float]
"""What was set, as text; the objective in seconds, None without a plan; and its lower bound in seconds, 0 at worst."""


KEY = 15.0
"""Height of a line of the key, in pixels."""


def curve_picture(points: Sequence[Point], what: str, along: str, bend: int | None = None) -> Picture:
    """Points at equal distances, in their order. what: the objective; along: what is varied; bend: the position of the
    knee. A point without a plan is listed below the axis."""
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
    corners = [(x, y(time)) for x, (_, time, _) in zip(xs, points, strict=True) if time is not None]
    if len(bounds) > 1:
        shapes.append(Polygon((*((x, bottom) for x in (bounds[0][0],)), *bounds, (bounds[-1][0], bottom)), "lane"))
        shapes.append(Stroke(tuple(bounds), "accent", 1.5, dashed=True))
    if len(corners) > 1:
        shapes.append(Stroke(tuple(corners), "text", 1.8))
    for (name, time, bound), x in zip(points, xs, strict=True):
        shapes.append(Label(x, bottom + 14, name, "quiet", 10.5, "middle"))
        if time is None:
            shapes.append(Label(x, bottom - 9, "no plan", "fail", 10.5, "middle", halo="background"))
            continue
        title = f"{name}: {text.seconds(time)}, bound {text.seconds(bound)}"
        shapes.append(Rect(x - DOT, y(time) - DOT, 2 * DOT, 2 * DOT, "text", radius=DOT, title=title))
        shapes.append(Label(x, y(time) - 11, text.seconds(time), "text", 10.5, "middle", halo="background"))
    if bend is not None and (time := points[bend][1]) is not None:
        shapes += _knee(xs[bend], y(time), "text")
    shapes.append(Label(8, 12, f"{what} by {along}", "text", 11.5, bold=True))
    shapes.append(Label(WIDTH - RIGHT, 12, "dashed: lower bound", "quiet", 10.5, "end"))
    return Picture(tuple(shapes), WIDTH, HEIGHT, f"{what} by {along}: {text.plural(len(points), 'point')}", 0)


def curves_picture(lines: Mapping[str, Sequence[float | None]], values: Sequence[float], what: str) -> Picture:
    """Times over memory caps, a line for each of several names, with the knee of each that has one.

    lines: name -> seconds at every value, None without a plan. values: bytes, ascending, to scale.
    """
    times = [time for line in lines.values() for time in line if time is not None]
    high, low = max(times) * 1.02, min(times) * 0.98
    step = round_step((high - low) / TICKS)
    low = max(0.0, math.floor(low / step) * step)
    right, bottom = WIDTH - RIGHT, TALL - BOTTOM
    wide = (values[-1] - values[0]) or 1.0

    def at(value: float, time: float) -> tuple[float, float]:
        x = LEFT + (right - LEFT) * (value - values[0]) / wide
        return x, bottom - (bottom - TOP) * (time - low) / (high - low)

    shapes: list[Shape] = []
    for i in range(int((high - low) / step) + 1):
        ends = at(values[0], low + i * step), at(values[-1], low + i * step)
        shapes.append(Stroke(ends, "grid"))
        shapes.append(Label(LEFT - 8, ends[0][1], text.seconds(low + i * step), "quiet", 10.5, "end"))
    last = -math.inf
    for value in values:
        x = at(value, low)[0]
        if x - last > SPACING:
            shapes.append(Label(x, bottom + 14, text.nbytes(value), "quiet", 10.5, "middle"))
            last = x
    for number, (name, line) in enumerate(lines.items()):  # seconds, None without a plan
        colour, dashed = device(number), number >= HUES
        known = [(value, time) for value, time in zip(values, line, strict=True) if time is not None]
        corners = [at(*one) for one in known]
        if len(corners) > 1:
            shapes.append(Stroke(tuple(corners), colour, 1.8, dashed=dashed))
        for (x, y), (value, took_s) in zip(corners, known, strict=True):
            title = f"{name}, {text.nbytes(value)}: {text.seconds(took_s)}"
            shapes.append(Rect(x - DOT, y - DOT, 2 * DOT, 2 * DOT, colour, radius=DOT, title=title))
        bend = knee(values, line)
        if bend is not None and (least := line[bend]) is not None:
            shapes += _knee(*at(values[bend], least), colour)
        x, y = LEFT + 8 + KEY_WIDE * (number % KEYS), TALL + 4 + KEY * (number // KEYS)
        shapes.append(Stroke(((x, y), (x + 18, y)), colour, 2.4, dashed=dashed))
        shapes.append(Label(x + 24, y, name, "text", 10.5))
    shapes.append(Label(8, 12, f"{what} by memory cap", "text", 11.5, bold=True))
    shapes.append(Label(right, 12, "ring: beyond it more memory helps little", "quiet", 10.5, "end"))
    height = TALL + 4 + KEY * (1 + (len(lines) - 1) // KEYS)
    description = f"{what} by memory cap: {text.listing(list(lines), 12)}"
    return Picture(tuple(shapes), WIDTH, height, description, min(HUES, len(lines)))


def _knee(x: float, y: float, colour: str) -> list[Shape]:
    ring = 2.4 * DOT
    return [Rect(x - ring, y - ring, 2 * ring, 2 * ring, "", colour, 1.6, ring, title="knee")]


def _what(objective: Objective) -> str:
    return "Iteration time" if objective is Objective.ITERATION else objective.value


class Sweep(tuple[Row, ...]):
    """Rows in the order in which they were asked."""

    __slots__ = ()

    def curve(self) -> Picture | None:
        """The objective and its lower bound along the one axis that varies, or over memory caps a line for each
        pipeline, way to recompute, planner or model; None where others vary, or no row has a plan."""
        varied = [axis for axis in AXES if len({getattr(row.point, axis) for row in self}) > 1]
        solved = [row.result for row in self if row.result is not None and row.plan is not None]
        if not solved:
            return None
        named = {(row.model, row.planner, row.point.pipeline, row.point.recompute) for row in self}
        if "memory_bytes" in varied and not set(varied) - {"memory_bytes", "pipeline", "recompute"} and len(named) > 1:
            return self._lines_of_memory(solved[0].problem.objective)
        if len(varied) > 1 or len({one[:2] for one in named}) > 1:
            return None
        axis = varied[0] if varied else next(a for a in AXES if getattr(self[0].point, a) is not None)
        ordered = sorted(self, key=lambda row: getattr(row.point, axis))
        points: list[Point] = [
            (
                row.point.cell(axis),
                None if row.result is None or row.plan is None else row.result.objective_s,
                row.result.bound_s if row.result is not None and text.known(row.result.bound_s) else 0.0,
            )
            for row in ordered
        ]
        bend = None
        if axis == "memory_bytes":
            bend = knee([row.point.memory_bytes or 0.0 for row in ordered], [time for _, time, _ in points])
        return curve_picture(points, _what(solved[0].problem.objective), AXIS_WORDS[axis], bend)

    def _lines_of_memory(self, objective: Objective) -> Picture:
        """Without plans that run in another order than the one of several stages a device that was asked for."""
        values = sorted({row.point.memory_bytes for row in self if row.point.memory_bytes is not None})
        parts = [(row.model, row.planner, row.point.pipeline, row.point.recompute) for row in self]
        differ = [i for i in range(4) if len({part[i] for part in parts}) > 1]
        lines: dict[str, list[float | None]] = {}
        for row, part in zip(self, parts, strict=True):
            line = lines.setdefault(" ".join(str(part[i]) for i in differ), [None] * len(values))
            pipeline, cap = row.point.pipeline, row.point.memory_bytes
            if row.result is None or row.plan is None or cap is None:
                continue
            if pipeline not in SEVERAL_STAGES or row.plan.pipeline == pipeline:
                line[values.index(cap)] = row.result.objective_s
        return curves_picture(lines, values, _what(objective))

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
