"""A plan as one static picture: the graph beside the schedule, for a notebook that is read without a kernel."""

from __future__ import annotations

from dataclasses import replace

from explorer.view.graph.opening import first_view
from explorer.view.graph.palette import Theme
from explorer.view.pictures.card import image
from explorer.view.pictures.gantt import gantt_picture
from explorer.view.pictures.graph import graph_picture
from explorer.view.pictures.picture import Picture
from explorer.view.pictures.shapes import Label, Rect, Shape, Stroke
from explorer.view.plan_types import PlanView, Skeleton

GAP = 12.0
WIDE, SMALL = 900.0, 620.0
"""Pixels of a schedule, alone below a graph and on a card."""
MOST_BOXES = 40
"""A graph on a card has at most this many."""
MARK = "data-placement-explorer"
"""The attribute of a picture that stands in for the widget of that number: `assets/widget/index.js` hides it while the
widget is in the page."""
UNLOADED = (
    f"<style>.jp-OutputArea-child:has([{MARK}]) + .jp-OutputArea-child:not(:has(.placement-explorer))"
    "{display:none}</style>"
)
"""Hides what JupyterLab says below the picture where no kernel knows the widget."""


def still_picture(skeleton: Skeleton, plan: PlanView | None) -> Picture:
    """Graph above schedule; the graph alone without a plan."""
    above = graph_picture(skeleton, plan, aspect=2.4)
    if plan is None:
        return above
    below = gantt_picture(plan, width=max(WIDE, above.width), operators=skeleton["names"])
    shift = (below.width - above.width) / 2
    shapes = [_moved(shape, shift, 0.0) for shape in above.shapes]
    shapes += [_moved(shape, 0.0, above.height + GAP) for shape in below.shapes]
    return Picture(
        tuple(shapes), below.width, above.height + GAP + below.height, f"{above.title}. {below.title}", below.devices
    )


def still_html(skeleton: Skeleton, plan: PlanView | None, number: str, theme: Theme) -> str:
    """The same as HTML, in place of the widget of this number wherever that is not."""
    picture = image(still_picture(skeleton, plan), theme)
    return f'{UNLOADED}<div {MARK}="{number}" style="max-width:{WIDE:g}px">{picture}</div>'


def card_picture(skeleton: Skeleton, plan: PlanView | None) -> Picture:
    """Small: the schedule of a plan, or a graph at the deepest level at which it is small."""
    if plan is not None:
        picture = gantt_picture(plan, width=SMALL)
        return replace(picture, shapes=tuple(map(_quiet, picture.shapes)))
    return graph_picture(skeleton, expanded=first_view(skeleton, most=MOST_BOXES, many=MOST_BOXES), aspect=2.8)


def _quiet(shape: Shape) -> Shape:
    """Without what it says when pointed at: on a card nobody points."""
    return shape._replace(title="") if isinstance(shape, Rect | Stroke) else shape


def _moved(shape: Shape, x: float, y: float) -> Shape:
    if isinstance(shape, Rect | Label):
        return shape._replace(x=shape.x + x, y=shape.y + y)
    return shape._replace(points=tuple((a + x, b + y) for a, b in shape.points))
