"""The operators of a plan as a picture: modules as boxes in the colour of their device, cut tensors distinguished."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from explorer.view.graph.elements import Assignment, GraphView, assignment, full_name, graph_view
from explorer.view.graph.layered_layout import NODE_HEIGHT
from explorer.view.graph.opening import first_view
from explorer.view.graph.palette import device, pattern_of
from explorer.view.pictures.picture import Picture
from explorer.view.pictures.shapes import Label, Point, Polygon, Rect, Shape, Stroke, curve, text_width
from explorer.view.plan_types import PlanView, Skeleton
from explorer.words import text

ASPECT = 1.5
MARGIN = 16.0
HEAD, FOOT = 26.0, 34.0
ROUTE = 14.0
"""Pixels above the first and below the last row that edges between columns need."""
STRIP = 9.0
"""Pixels of the colour of every further device of a box."""
STRIPS = 5
LABELLED = 24
"""The largest cuts have their bytes written beside them."""


def graph_picture(
    skeleton: Skeleton,
    plan: PlanView | None = None,
    *,
    expanded: frozenset[str] | None = None,
    aspect: float = ASPECT,
    heading: str = "",
) -> Picture:
    """The graph of a workload (`explorer.view.graph.skeleton.skeleton`) coloured by a plan's view; grey without one.

    expanded: the modules that are open (None: as many as can be read). aspect: width over height, about.
    """
    view = graph_view(skeleton, first_view(skeleton) if expanded is None else expanded, aspect)
    laid: Assignment = {"nodes": {}, "cuts": {}, "inside": {}}
    names: list[str] = []
    if plan is not None:
        laid = assignment(view, skeleton, plan["placement"], plan["samples"])
        names = [device["name"] for device in plan["devices"]]
    around = ROUTE if view.layout.routes else 0.0
    top = MARGIN + (HEAD if heading else 0.0) + around
    width = max(view.layout.width + 2 * MARGIN, 420.0)
    left = (width - view.layout.width) / 2
    places = {
        name: (x + left, y + top) for name, (x, y) in zip(view.boxes, view.layout.positions, strict=True)
    }  # fmt: skip
    shapes: list[Shape] = []
    if heading:
        shapes.append(Label(MARGIN, MARGIN + 4, heading, "text", 13, bold=True))
    corners = {number: _corners(view, number, left, top) for number in view.layout.routes}
    shapes += _edges(view, skeleton, laid["cuts"], places, corners)
    shapes += _boxes(view, skeleton, laid["nodes"], places, names)
    bottom = top + view.layout.height
    used = sorted({index for devices in laid["nodes"].values() for index in devices})
    bottom += around
    height = bottom + MARGIN
    if used:
        lines = _legend(used, names, width, bottom + FOOT / 2 + 2)
        shapes += lines
        height = max(shape.y for shape in lines if isinstance(shape, Label)) + 18
    description = f"Graph of {skeleton['name']}: {text.plural(skeleton['operators'], 'operator')}"
    description += f" on {text.plural(len(used), 'device')}" if used else ""
    return Picture(tuple(shapes), width, height, description, len(names))


def _boxes(
    view: GraphView,
    skeleton: Skeleton,
    nodes: Mapping[str, Sequence[int]],
    places: Mapping[str, Point],
    names: Sequence[str],
) -> list[Shape]:
    shapes: list[Shape] = []
    wide = view.layout.box_width
    for name, members in view.boxes.items():
        x, y = places[name][0] - wide / 2, places[name][1] - NODE_HEIGHT / 2
        on = list(nodes.get(name, ()))
        where = text.listing([names[index] for index in on], 6) if on else "nowhere"
        title = f"{full_name(skeleton, name)}: {text.plural(len(members), 'operator')}" + (f" on {where}" if on else "")
        fill, colour = (device(on[0]), device(on[0], "text")) if on else ("lane", "text")
        hatch = pattern_of(on[0]) if on else ""
        shapes.append(Rect(x, y, wide, NODE_HEIGHT, fill, "" if on else "grid", 1.0, 5.0, hatch, colour, 0.35,
                          title))  # fmt: skip
        further = on[1 : 1 + STRIPS]
        for place, index in enumerate(further):
            right = x + wide - STRIP * (len(further) - place) - 5
            shapes.append(Rect(right, y + 3, STRIP - 1.5, NODE_HEIGHT - 6, device(index), "background", 0.8, 1.5))
        number = str(on[0]) if on else ""
        room = wide - 20 - text_width(number, 10) - STRIP * len(further)
        label = text.short(view.labels[name], max(3, int(room / text_width("m", 11))))
        rim = fill if hatch else ""
        shapes.append(Label(x + 7, y + NODE_HEIGHT / 2, label, colour, 11, halo=rim))
        if number:
            end = x + wide - 7 - (STRIP * len(further) + 3 if further else 0)
            shapes.append(Label(end, y + NODE_HEIGHT / 2, number, colour, 10, "end", halo=rim))
    return shapes


def _edges(
    view: GraphView,
    skeleton: Skeleton,
    cuts: Mapping[str, Sequence[Any]],
    places: Mapping[str, Point],
    corners: Mapping[int, Sequence[Point]],
) -> list[Shape]:
    """Edges inside a device thin, those that are cut thick; the largest cuts say how large they are."""
    largest = max((cut[1] for cut in cuts.values()), default=0.0)
    thin: list[Shape] = []
    thick: list[Shape] = []
    words: list[Shape] = []
    named = {key for key, _ in Counter({key: cut[1] for key, cut in cuts.items()}).most_common(LABELLED)}
    for number, (source, target) in enumerate(view.edges):
        if number in view.layout.fans:
            continue
        key = f"e:{number}"
        way = _way(places[source], places[target], corners.get(number))
        cut = cuts.get(key)
        colour = "quiet" if cut is None else "accent"
        wide = 0.8 if cut is None else 1.6 + 2.4 * math.sqrt(cut[1] / largest if largest else 0.0)
        where = thin if cut is None else thick
        title = f"{full_name(skeleton, source)} to {full_name(skeleton, target)}" + (f": {cut[0]}" if cut else "")
        where.append(Stroke(tuple(way), colour, wide, title=title))
        where.append(_head(way, colour, 4 + wide))
        if cut is not None and cut[0] and key in named:
            x, y = _middle(way)
            steep = abs(way[-1][0] - way[0][0]) < view.layout.box_width / 4
            words.append(Label(x + (7 if steep else 0), y, cut[0], "text", 9.5, "start" if steep else "middle",
                               halo="background"))  # fmt: skip
    return [*thin, *thick, *words]


def _corners(view: GraphView, edge: int, left: float, top: float) -> list[Point]:
    """The corners of an edge that goes on in another column (see `Layout.routes`), in the picture."""
    places = dict(zip(view.boxes, view.layout.positions, strict=True))
    source, target = (places[name] for name in list(view.edges)[edge])
    dx, dy = target[0] - source[0], target[1] - source[1]
    length = math.hypot(dx, dy) or 1.0
    return [
        (source[0] + dx * along - dy / length * aside + left, source[1] + dy * along + dx / length * aside + top)
        for along, aside in zip(*view.layout.routes[edge], strict=True)
    ]


def _way(source: Point, target: Point, corners: Sequence[Point] | None) -> list[Point]:
    """From below the one box to above the other; along the corners where it goes on in another column."""
    start, end = (source[0], source[1] + NODE_HEIGHT / 2), (target[0], target[1] - NODE_HEIGHT / 2 - 1)
    if corners is not None:
        return [start, *corners, end]
    reach = max(4.0, abs(end[1] - start[1]) * 0.45)
    return curve(start, (start[0], start[1] + reach), (end[0], end[1] - reach), end)


def _head(way: Sequence[Point], colour: str, size: float) -> Polygon:
    (ax, ay), (bx, by) = way[-2], way[-1]
    length = math.hypot(bx - ax, by - ay) or 1.0
    ux, uy = (bx - ax) / length, (by - ay) / length
    foot = (bx - ux * size, by - uy * size)
    side = size * 0.45
    left, right = ((foot[0] - uy * way_, foot[1] + ux * way_) for way_ in (side, -side))
    return Polygon(((bx, by + 1), left, right), colour)


def _middle(way: Sequence[Point]) -> Point:
    """The point half way along."""
    lengths = [math.dist(a, b) for a, b in pairwise(way)]
    left = sum(lengths) / 2
    for (a, b), length in zip(pairwise(way), lengths, strict=True):
        if left <= length:
            share = left / length if length else 0.0
            return a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share
        left -= length
    return way[-1]


def _legend(used: Sequence[int], names: Sequence[str], width: float, y: float) -> list[Shape]:
    """The devices in use and what a thick line is, in as many lines as they need."""
    shapes: list[Shape] = []
    x = MARGIN
    for index in used:
        wide = 15 + text_width(names[index], 10) + 14
        if x + wide > width - MARGIN and x > MARGIN:
            x, y = MARGIN, y + 18
        shapes.append(Rect(x, y - 5, 10, 10, device(index), radius=2, hatch=pattern_of(index),
                          ink=device(index, "text"), hatch_opacity=0.35))  # fmt: skip
        shapes.append(Label(x + 15, y, names[index], "quiet", 10))
        x += wide
    words = "tensors between devices, a micro-batch"
    if x + 26 + text_width(words, 10) > width - MARGIN:
        x, y = MARGIN, y + 18
    return [*shapes, Stroke(((x, y), (x + 20, y)), "accent", 3), Label(x + 26, y, words, "quiet", 10)]
