"""What is drawn of a model and a plan, as plain data that a browser's drawing takes: the page's and the widget's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from explorer.view.graph import elements, pinning, sharding, stage_boxes
from explorer.view.graph.elements import GraphView
from explorer.view.graph.errors import BoxErrors
from explorer.view.graph.palette import Theme
from explorer.view.graph.stage_boxes import StageScene
from explorer.view.instants.waits import ChainColumns
from explorer.view.plan_types import Bars, PlanView, Skeleton
from explorer.view.session import Look
from explorer.view.timeline import canvas, charts, gantt_rows, operator_bars, repeated, shapes
from explorer.view.timeline.canvas import CanvasScene
from explorer.view.timeline.charts import MemoryCard, Strips
from explorer.view.timeline.gantt_rows import RowColumns, Rows
from explorer.view.timeline.operator_bars import OperatorWords
from explorer.view.timeline.order import order_name
from explorer.words import text
from explorer.words.actions import REPEATED

BarColumns = Mapping[str, Sequence[object] | None]
"""Bars as a drawing takes them, a list a property."""


class RowsScene(RowColumns):
    """can: whether stages can be rows; can_link: whether links can; links: whether they are."""

    can: bool
    can_link: bool
    links: bool
    path: bool


class GraphScene(TypedDict):
    """Boxes and edges, before any plan. count: "16 boxes, 192 operators"."""

    elements: Sequence[Mapping[str, object]]
    max_zoom: float
    expandable: list[str]
    count: str
    depth: str


class OverlayScene(TypedDict):
    """What a plan lays over a graph, by box. cuts: label and width of the edges whose tensors cross devices; inside: of
    the boxes that are cut themselves, the bytes; chips: of edges what members of a group have of the tensor, and
    whether they exchanged something for that; keys: the forward operators, where those are scheduled one by one."""

    nodes: Mapping[str, list[int]]
    cuts: Mapping[str, tuple[str, float]]
    inside: Mapping[str, str]
    chips: Mapping[str, tuple[str, bool]]
    stages: Mapping[str, list[int]]
    keys: Mapping[str, list[int]] | None
    pinned: list[str]
    errors: BoxErrors | None


class Path(TypedDict):
    """A chain of spans through the rows of a schedule. link: whether one is of a link, or on which."""

    row: Sequence[int]
    link: Sequence[bool]
    start: Sequence[float]
    end: Sequence[float]


Detail = TypedDict("Detail", {"merged": bool, "from": float, "to": float})
"""Whether bars stand for several spans, and the part of the axis that is drawn in detail."""


class PlanScene(TypedDict):
    """The schedule of a plan, the DAG of its stages, memory over time. memory: a card a device, or of many devices
    ``strips``; count: "one pass · 2,594 spans"."""

    figure: CanvasScene
    bars: BarColumns
    spans: BarColumns | None
    detail: Detail
    rows: RowsScene
    path: Path
    scale_s: float
    by_operator: bool
    can_draw_stages: bool
    devices: list[str]
    dag: StageScene
    memory: Sequence[MemoryCard]
    strips: Strips | None
    count: str


class BarsScene(TypedDict):
    """The bars to draw while a part of the schedule is in sight."""

    lanes: Sequence[Mapping[str, object]]
    bars: BarColumns
    detail: Detail


SPAN_COLUMNS = ("row", "device", "stage", "key", "operator", "to", "start", "end")


def graph_scene(view: GraphView, skeleton: Skeleton) -> GraphScene:
    """Boxes and edges, before any plan: elements, max_zoom, expandable; count ("16 boxes, 192 operators") and depth, as
    text."""
    boxes = len(view.boxes)
    note = " · more would not fit" if view.collapsed else ""
    return {
        "elements": elements.cytoscape_elements(view, skeleton),
        "max_zoom": view.layout.max_zoom,
        "expandable": sorted(view.expandable),
        "count": f"{boxes:,} box{'es' * (boxes != 1)}, {text.plural(skeleton['operators'], 'operator')}{note}",
        "depth": str(view.depth),
    }


def overlay_scene(view: GraphView, skeleton: Skeleton, plan: PlanView, errors: BoxErrors | None = None) -> OverlayScene:
    """Devices, cut tensors and stages of the boxes: what a plan lays over a graph. inside: of the boxes that are cut
    themselves, the bytes that cross devices in them or on the way into them. errors: of its run, by box."""
    assigned = elements.assignment(view, skeleton, plan["placement"], plan["samples"])
    cuts, into = assigned["cuts"], {}
    largest = max((size for _, size in cuts.values()), default=0.0)
    for number, (_, target) in enumerate(view.edges):
        if target in assigned["inside"]:
            into[f"e:{number}"] = target
    bytes_at = {box: size for box, (_, size) in assigned["inside"].items()}
    for edge in into.keys() & cuts.keys():
        bytes_at[into[edge]] += cuts[edge][1]
    return {
        "nodes": assigned["nodes"],
        "cuts": {
            edge: ("" if edge in into else label, round(2.0 + 3.0 * (size / largest if largest else 0.0), 2))
            for edge, (label, size) in cuts.items()
        },
        "inside": {box: text.nbytes(size) for box, size in bytes_at.items()},
        "chips": sharding.chips(view, skeleton, plan),
        "stages": {name: sorted({plan["stage_of"][i] for i in members}) for name, members in view.boxes.items()},
        "keys": {name: sorted({skeleton["anchors"][i] for i in members}) for name, members in view.boxes.items()}
        if plan["by_operator"]
        else None,
        "pinned": pinning.whole(plan["pinned"], view, skeleton),
        "errors": errors,
    }


def schedule_scene(
    skeleton: Skeleton,
    plan: PlanView,
    theme: Theme,
    look: Look,
    until_s: float | None = None,
    mark: tuple[str, float] | None = None,
) -> PlanScene:
    """The schedule of a plan's view, the DAG of its stages, memory over time. until_s: where the time axis ends, if not
    with the plan; mark: see `canvas`. memory: a card a device, or of many devices ``strips``."""
    until_s = until_s or plan["span_s"]
    scale, _ = text.time_unit(until_s or 1.0)
    shown, merged = _drawn(plan, (0.0, until_s))
    lanes = gantt_rows.rows_of(plan, look.rows, look.links, shown)
    stages = stage_boxes.stage_boxes(plan)
    strips = charts.memory_strips(plan)
    return {
        "figure": canvas.canvas(_lanes(plan, shown, lanes, skeleton), lanes, plan["span_s"], theme, until_s, mark),
        "bars": _columns(plan, shown, lanes.of_bar, skeleton, scale),
        "spans": _spans(plan, look, skeleton, scale) if merged else None,
        "detail": {"merged": merged, "from": 0.0, "to": until_s / scale},
        "rows": {
            **gantt_rows.row_columns(lanes, [device["node"] for device in plan["devices"]]),
            "can": gantt_rows.can_stages(plan),
            "can_link": bool(plan["links"]),
            "links": any(row.links for row in lanes.rows),
            "path": look.path,
        },
        "path": _path(plan, lanes, scale),
        "scale_s": scale,
        "by_operator": plan["by_operator"],
        "can_draw_stages": not stages["too_many"],
        "devices": _names(plan),
        "dag": stages,
        "memory": charts.memory_cards(plan) if strips is None else [],
        "strips": strips,
        "count": _count(plan, shown),
    }


def window_scene(
    skeleton: Skeleton, plan: PlanView, theme: Theme, look: Look, window: tuple[float, float], until_s: float
) -> BarsScene:
    """The bars to draw while ``window`` (from and to, in the unit of the axis) is in sight; until_s: where
    the axis of the whole ends."""
    scale, _ = text.time_unit(until_s or 1.0)
    shown, merged = _drawn(plan, (window[0] * scale, window[1] * scale))
    lanes = gantt_rows.rows_of(plan, look.rows, look.links, shown)
    return {
        "lanes": canvas.lanes_object(_lanes(plan, shown, lanes, skeleton), scale, theme),
        "bars": _columns(plan, shown, lanes.of_bar, skeleton, scale),
        "detail": {"merged": merged, "from": window[0], "to": window[1]},
    }


def waits_scene(plan: PlanView, look: Look, chain: ChainColumns, until_s: float) -> Path:
    """The columns of a chain (`explorer.view.instants.waits.chain_columns`) as the critical path is drawn."""
    scale, _ = text.time_unit(until_s or 1.0)
    shown, _ = _drawn(plan, (0.0, until_s))
    at = {use["resource"]: i for i, use in enumerate(plan["links"])}
    link = [at.get(resource, -1) for resource in chain["resource"]]
    rows = gantt_rows.rows_of(plan, look.rows, look.links, shown)
    return {
        "row": gantt_rows.rows_along(rows, chain["device"], link),
        "link": [resource != "" for resource in chain["resource"]],
        "start": [round(s / scale, 6) for s in chain["start_s"]],
        "end": [round(s / scale, 6) for s in chain["end_s"]],
    }


def _drawn(plan: PlanView, window: tuple[float, float]) -> tuple[Bars, bool]:
    """The bars to draw for a window in seconds, and whether there are runs among them that come apart."""
    if not plan["by_operator"]:
        return repeated.drawn(plan, window)
    return operator_bars.drawn(plan["bars"], window)


def _names(plan: PlanView) -> list[str]:
    return [device["name"] for device in plan["devices"]]


def _lanes(plan: PlanView, shown: Bars, rows: Rows, skeleton: Skeleton) -> list[shapes.Lane]:
    """The lanes of the bars that are shown."""
    names = _names(plan)
    if not plan["by_operator"]:
        return shapes.lanes(shown, rows, names, lambda i: canvas.hover(shown, i, names))
    words = OperatorWords(plan["bars"], skeleton["names"], names, plan["links"])
    return shapes.lanes(shown, rows, names, lambda i: words.hover(shown, i))


def _columns(plan: PlanView, bars: Bars, rows: tuple[int, ...], skeleton: Skeleton, scale: float) -> BarColumns:
    """Bars as the browser needs them. key: what is highlighted together, the stage of a bar or, where
    operators are scheduled one by one, the forward operator that it belongs to."""
    anchors = skeleton["anchors"]
    return {
        "row": rows,
        "device": bars["device"],
        "stage": bars["stage"],
        "key": [anchors[o] if o >= 0 else -1 for o in bars["operator"]] if plan["by_operator"] else bars["stage"],
        "operator": bars["operator"],
        "micro": bars["micro_batch"],
        "label": [repeated.label(bars, i) for i in range(len(bars["kind"]))] if REPEATED in bars["kind"] else None,
        "kind": bars["kind"],
        "to": bars["to_device"],
        "start": [round(s / scale, 6) for s in bars["start_s"]],
        "end": [round(s / scale, 6) for s in bars["end_s"]],
    }


def _spans(plan: PlanView, look: Look, skeleton: Skeleton, scale: float) -> BarColumns:
    """All bars of a schedule, for what is highlighted where runs are drawn."""
    bars = plan["bars"]
    columns = _columns(plan, bars, gantt_rows.rows_of(plan, look.rows, look.links).of_bar, skeleton, scale)
    return {name: columns[name] for name in SPAN_COLUMNS}


def _path(plan: PlanView, lanes: Rows, scale: float) -> Path:
    path = plan["path"]
    return {
        "row": gantt_rows.path_rows(lanes, plan),
        "link": [link >= 0 for link in path["link"]],
        "start": [round(s / scale, 6) for s in path["start_s"]],
        "end": [round(s / scale, 6) for s in path["end_s"]],
    }


def _count(plan: PlanView, shown: Bars) -> str:
    """ "one pass · 2,594 spans", or as how many bars they are drawn."""
    bars = len(shown["device"])
    order = order_name(plan)
    merged = f"{plan['spans']:,} spans as {bars:,} bars"
    return f"{order} · {merged if plan['spans'] > bars else text.plural(plan['spans'], 'span')}"
