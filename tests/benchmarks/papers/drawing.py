"""Plots of the papers' experiments beside ours, as SVG; written where BENCHMARK_PICTURES names a folder."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from explorer.view.pictures.picture import Picture
from explorer.view.pictures.shapes import Label, Rect, Shape, Stroke, text_width

WIDTH, HEIGHT = 620.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 16.0, 52.0, 34.0
DOT = 2.6
"""Half the side of a point's mark, in pixels."""
TICKS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """One series: a value at every place of the axis, None where there is none. from_paper: of the paper, dashed."""

    name: str
    values: Sequence[float | None]
    from_paper: bool = False


def plot(title: str, along: str, places: Sequence[str], lines: Sequence[Line], least: float = 0.0) -> Picture:
    """Lines over places at equal distances; the axis begins at ``least``. Points say their values when pointed at."""
    known = [value for line in lines for value in line.values if value is not None and math.isfinite(value)]
    high = max([*known, least + 1e-9])
    tick = _tick((high - least) / TICKS)
    top = least + math.ceil((high - least) / tick - 1e-9) * tick
    bottom = HEIGHT - BOTTOM
    step = (WIDTH - LEFT - RIGHT) / max(1, len(places))
    xs = [LEFT + step * (i + 0.5) for i in range(len(places))]

    def y(value: float) -> float:
        return bottom - (bottom - TOP) * (value - least) / (top - least)

    shapes: list[Shape] = [Label(8, 12, title, "text", 11.5, bold=True)]
    for i in range(round((top - least) / tick) + 1):
        value = least + i * tick
        shapes.append(Stroke(((LEFT, y(value)), (WIDTH - RIGHT, y(value))), "grid"))
        shapes.append(Label(LEFT - 6, y(value), f"{value:g}", "quiet", 10.5, "end"))
    shapes += [Label(x, bottom + 13, place, "quiet", 10.5, "middle") for x, place in zip(xs, places, strict=True)]
    shapes.append(Label(LEFT + (WIDTH - LEFT - RIGHT) / 2, bottom + 27, along, "quiet", 10.5, "middle"))
    right = 8.0
    for number, line in enumerate(lines):
        colour = f"device-{number}"
        shapes.append(Stroke(((right, 32), (right + 16, 32)), colour, 2.0, dashed=line.from_paper))
        shapes.append(Label(right + 20, 32, line.name, "text", 10.5))
        right += 34 + text_width(line.name, 10.5)
        points = [(x, y(v), v, p) for x, v, p in zip(xs, line.values, places, strict=True) if v is not None and v == v]
        if len(points) > 1:
            shapes.append(Stroke(tuple(point[:2] for point in points), colour, 2.0, dashed=line.from_paper))
        for x, at, value, place in points:
            shown = f"{line.name}, {place}: {value:.3g}"
            shapes.append(Rect(x - DOT, at - DOT, 2 * DOT, 2 * DOT, colour, radius=DOT, title=shown))
    return Picture(tuple(shapes), WIDTH, HEIGHT, f"{title}, by {along}", len(lines))


def save(name: str, picture: Picture) -> None:
    """Write NAME.svg into the folder that BENCHMARK_PICTURES names, if it names one."""
    folder = os.environ.get("BENCHMARK_PICTURES")
    if folder:
        path = Path(folder) / f"{name}.svg"
        path.write_text(picture.svg())
        print(f"wrote {path}")


def _tick(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= rough * (1 - 1e-9))
