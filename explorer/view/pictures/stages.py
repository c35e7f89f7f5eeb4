"""The DAG of a plan's stages as a picture: columns by depth, so that branches are rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.view.graph.palette import device, pattern_of
from explorer.view.graph.stage_boxes import stage_boxes
from explorer.view.pictures.picture import Picture
from explorer.view.pictures.shapes import STEPS, Label, Point, Polygon, Rect, Shape, Stroke, curve
from explorer.view.plan_types import PlanView
from explorer.words import text

BOX, TALL = 172.0, 62.0
BETWEEN, GAP = 84.0, 22.0
MARGIN, HEAD, FOOT = 16.0, 26.0, 26.0
ASIDE = 5.0
"""Pixels by which edges that go down past a box and those that go up are off the middle of the gap they share."""
STRIPE = 6.0
STRIPES = 8
"""Devices whose colours a box shows."""


def stages_picture(plan: PlanView, *, heading: str = "") -> Picture | None:
    """The stages of a plan's view with who runs them, forward and backward times, share of the work and peak memory,
    and what they send for every micro-batch; None where there are more than can be read (`stage_boxes`)."""
    view = stage_boxes(plan)
    if view["too_many"] or not view["boxes"]:
        return None
    top = MARGIN + (HEAD if heading else 0.0) + GAP / 2
    lanes = max(box["lane"] for box in view["boxes"])
    width = 2 * MARGIN + view["columns"] * (BOX + BETWEEN) - BETWEEN
    bottom = top + lanes * (TALL + GAP) + TALL
    width = max(width, 420.0)
    places = {
        box["stage"]: (MARGIN + box["column"] * (BOX + BETWEEN), top + box["lane"] * (TALL + GAP))
        for box in view["boxes"]
    }
    shapes: list[Shape] = []
    if heading:
        shapes.append(Label(MARGIN, MARGIN + 4, heading, "text", 13, bold=True))
    words: list[Shape] = []
    for edge in view["edges"]:
        drawn, title = _edge(edge, places)
        shapes += drawn
        words += title
    for box in view["boxes"]:
        shapes += _box(box, places[box["stage"]])
    note = f"{view['note']}; bytes and times are of one micro-batch"
    bottom += GAP / 2
    shapes += [*words, Label(MARGIN, bottom + FOOT / 2 + 3, note, "quiet", 10)]
    return Picture(tuple(shapes), width, bottom + FOOT + 4, f"Stages: {view['note']}", len(plan["devices"]))


def _box(box: Mapping[str, Any], place: Point) -> list[Shape]:
    x, y = place
    edge = "text" if box["bottleneck"] else "grid"
    shapes: list[Shape] = [Rect(x, y, BOX, TALL, "lane", edge, 1.4 if box["bottleneck"] else 1.0, 6.0,
                               title=box["label"])]  # fmt: skip
    shown = box["devices"][:STRIPES]
    for i, index in enumerate(shown):
        tall = (TALL - 12) / len(shown)
        shapes.append(Rect(x + 6, y + 6 + i * tall, STRIPE, tall - (1 if len(shown) > 1 else 0), device(index),
                          radius=1.5, hatch=pattern_of(index), ink=device(index, "text"),
                          hatch_opacity=0.35))  # fmt: skip
    left, right = x + 6 + STRIPE + 8, x + BOX - 9
    shapes.append(Label(left, y + 15, f"{box['stage']} · {text.short(box['who_short'], 13)}", "text", 11, bold=True))
    shapes.append(Label(right, y + 15, box["share"], "text", 10.5, "end"))
    shapes.append(Label(left, y + 32, box["times"], "text", 10))
    shapes.append(Label(left, y + 48, f"{box['peak_short']} peak", "quiet", 9.5))
    flight = f"{box['flight']} in flight" + (", again" if box["recompute"] else "")
    shapes.append(Label(right, y + 48, flight, "quiet", 9.5, "end"))
    return shapes


def _edge(edge: Mapping[str, Any], places: Mapping[int, Point]) -> tuple[list[Shape], list[Shape]]:
    """The line with its head, and the words on it."""
    (ax, ay), (bx, by) = places[edge["source"]], places[edge["target"]]
    a, b = (ax + BOX, ay + TALL / 2), (bx - 2, by + TALL / 2)
    if bx - ax < 1.5 * (BOX + BETWEEN):
        way = _curve(a, b)
        x, y = way[STEPS // 2][0], way[STEPS // 2][1] - 8
    else:  # past the boxes between, in the gap above or below their lane
        down = by >= ay
        y = ay + TALL + GAP / 2 - ASIDE if down else ay - GAP / 2 + ASIDE
        first, last = (ax + BOX + BETWEEN, y), (bx - BETWEEN, y)
        way = [*_curve(a, first), *_curve(last, b)]
        x = first[0] + (last[0] - first[0]) * (0.35 if down else 0.65)
    colour = "quiet" if edge["waits"] else "accent"
    wide = 1.0 if edge["waits"] else 1.2 + 2.4 * edge["weight"]
    drawn: list[Shape] = [
        Stroke((*way[:-1], (b[0] - 3, b[1])), colour, wide, edge["waits"] or edge["between"]),
        Polygon(((b[0] + 2, b[1]), (b[0] - 6, b[1] - 3.6), (b[0] - 6, b[1] + 3.6)), colour),
    ]
    if edge["waits"]:
        return drawn, []
    return drawn, [Label(x, y, edge["text"], "text", 9.5, "middle", halo="background")]


def _curve(a: Point, b: Point) -> list[Point]:
    """From a to b, level at both ends."""
    reach = max(30.0, abs(b[0] - a[0]) * 0.5)
    return curve(a, (a[0] + reach, a[1]), (b[0] - reach, b[1]), b)
