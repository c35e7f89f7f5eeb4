"""What a picture is made of: a few kinds of shapes, in pixels, whose colours are names (see `palette`)."""

from __future__ import annotations

from typing import Literal, NamedTuple

Anchor = Literal["start", "middle", "end"]
Point = tuple[float, float]


class Rect(NamedTuple):
    """A rectangle with its upper left corner at (x, y).

    fill, stroke, ink: names of colours, "" for none. hatch: of HATCHES, lines in ``ink`` over the fill, as strong
    as hatch_opacity (0 to 1). title: what it says when pointed at.
    """

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = ""
    stroke_width: float = 1.0
    radius: float = 0.0
    hatch: str = ""
    ink: str = ""
    hatch_opacity: float = 0.9
    title: str = ""


class Stroke(NamedTuple):
    """A line through points, as wide as ``width``; dashed or not."""

    points: tuple[Point, ...]
    colour: str
    width: float = 1.0
    dashed: bool = False
    title: str = ""


class Polygon(NamedTuple):
    """A filled polygon."""

    points: tuple[Point, ...]
    fill: str


class Label(NamedTuple):
    """A line of text whose middle is at the height y. halo: the colour of a rim that keeps it apart from what is
    below it, "" for none."""

    x: float
    y: float
    text: str
    colour: str
    size: float = 11.0
    anchor: Anchor = "start"
    bold: bool = False
    halo: str = ""


Shape = Rect | Stroke | Polygon | Label

HATCHES: dict[str, tuple[tuple[Point, Point], ...]] = {
    "/": (((0, 6), (6, 0)), ((-1, 1), (1, -1)), ((5, 7), (7, 5))),
    "\\": (((0, 0), (6, 6)), ((-1, 5), (1, 7)), ((5, -1), (7, 1))),
    "-": (((0, 3), (6, 3)),),
    "x": (((0, 6), (6, 0)), ((0, 0), (6, 6))),
    "+": (((0, 3), (6, 3)), ((3, 0), (3, 6))),
    ".": (((2.4, 3), (3.6, 3)),),
}
"""Lines in a tile of TILE x TILE pixels that is repeated."""
TILE = 6
HATCH_WIDTH = 1.1

CHARACTER = 0.56
"""Width of a character of plain text, as a share of its size, about: no font is at hand to measure with."""


STEPS = 12
"""Points of a curve, less one."""


def curve(start: Point, towards: Point, along: Point, end: Point) -> list[Point]:
    """Points of a cubic Bézier curve with these corners."""
    points = []
    for i in range(STEPS + 1):
        t = i / STEPS
        weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
        x, y = (sum(w * p[axis] for w, p in zip(weights, (start, towards, along, end), strict=True)) for axis in (0, 1))
        points.append((x, y))
    return points


def text_width(text: str, size: float) -> float:
    """Pixels that a text takes, about; no less for what is mostly narrow letters."""
    return CHARACTER * size * len(text)
