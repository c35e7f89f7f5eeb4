"""A time against something that was varied, with its lower bound, as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.view.pictures.picture import Picture
from explorer.view.pictures.shapes import Label, Polygon, Rect, Shape, Stroke
from explorer.view.pictures.time_scale import round_step
from explorer.words import text

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
