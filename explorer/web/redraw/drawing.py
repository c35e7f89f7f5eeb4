"""The messages that draw: the graph of a model, and a plan laid over it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dash import html

from explorer.view.cards import Figures
from explorer.view.graph import elements, pinning, search, stage_boxes
from explorer.view.graph.elements import GraphView
from explorer.view.graph.palette import Theme
from explorer.view.graph.skeleton import Skeleton
from explorer.view.session import Look
from explorer.view.timeline import charts, gantt, gantt_rows, operator_bars, repeated
from explorer.view.timeline.bars import Bars
from explorer.view.timeline.bars import table as bars_table
from explorer.view.timeline.gantt_rows import Rows
from explorer.view.timeline.operator_words import OperatorWords
from explorer.web.contract import ids
from explorer.web.parts import panels, stage_panel
from explorer.web.redraw import run_drawing
from explorer.words import text
from explorer.words.actions import REPEATED

Message = dict[str, Any]
SPAN_COLUMNS = ("row", "device", "stage", "key", "operator", "to", "start", "end")
EDGED_SHARE = 0.006
"""Of the part of a schedule in sight: what a bar must take to have an edge."""
SAME_END = 0.002
"""Two schedules whose ends differ by less, relatively, end together to people."""


def graph_message(view: GraphView, skeleton: Skeleton) -> Message:
    """Sent once per model and level of detail."""
    note = " · more would not fit" if view.collapsed else ""
    return {
        "type": "graph",
        "elements": elements.cytoscape_elements(view),
        "max_zoom": view.layout.max_zoom,
        "expandable": sorted(view.expandable),
        "props": {
            ids.GRAPH_COUNT: {"children": f"{len(view.boxes):,} of {skeleton['operators']:,}{note}"},
            ids.GRAPH_DEPTH: {"children": [html.Span("level ", className="roomy"), str(view.depth)]},
        },
    }


def least_cap(skeleton: Skeleton, cap_bytes: float | None) -> int:
    """Where the memory slider begins, as log2 GiB: 1 GiB, or less for a model that needs less."""
    needed = sum(skeleton["params"]) * 4 / 64
    least = min(text.GIB, max(needed, 2**20), cap_bytes or text.GIB)
    return math.floor(math.log2(least / text.GIB))


def overlay_message(
    view: GraphView, skeleton: Skeleton, plan: Mapping[str, Any], ran: Mapping[str, Any] | None = None
) -> Message:
    """Devices, cut tensors and stages of the boxes: what a plan lays over a graph; and what its run does."""
    return {"type": "overlay", **_overlay(view, skeleton, plan, ran)}


def plan_message(
    view: GraphView,
    skeleton: Skeleton,
    plan: Mapping[str, Any],
    theme: Theme,
    before: Figures | None,
    look: Look | None = None,
    beside: tuple[str, float] | None = None,
    ran: Mapping[str, Any] | None = None,
) -> Message:
    """Everything a new plan changes on the page, but the tables that are shut. look: rows and links of the
    schedule; beside: name and end of another plan at whose time scale this one is drawn; ran: the comparison
    of its run with it."""
    look = look or Look()
    until_s = max(plan["span_s"], beside[1] if beside else 0.0, run_drawing.until_s(ran) if ran else 0.0)
    scale, _ = text.time_unit(until_s or 1.0)
    mark = None
    if beside is not None and abs(beside[1] / (plan["span_s"] or 1.0) - 1) > SAME_END:
        mark = (f"{beside[0]} ends at {text.seconds(beside[1])}", beside[1])
    shown, merged = _drawn(plan, (0.0, until_s))
    lanes = gantt_rows.rows_of(plan, look.rows, look.links, shown)
    stages = stage_boxes.stage_boxes(plan)
    message = {
        "type": "plan",
        "figure": _figure(plan, shown, skeleton, lanes, theme, until_s, mark, until_s),
        "bars": _columns(plan, shown, lanes.of_bar, skeleton, scale),
        "spans": _spans(plan, look, skeleton, scale) if merged else None,
        "detail": {"merged": merged, "from": 0.0, "to": until_s / scale},
        "rows": {
            "kind": lanes.kind,
            "stages": [row.stage for row in lanes.rows],
            "devices": [row.devices for row in lanes.rows],
            "middle": [round(middle, 4) for middle in lanes.middles()],
            "height": [row.height for row in lanes.rows],
            "link": [bool(row.links) for row in lanes.rows],
            "can": gantt_rows.can_stages(plan),
            "can_link": bool(plan["links"]),
            "links": any(row.links for row in lanes.rows),
            "path": look.path,
        },
        "path": _path(plan, lanes, scale),
        "scale_s": scale,
        "by_operator": plan["by_operator"],
        "can_draw_stages": not stages["too_many"],
        "devices": [d["name"] for d in plan["devices"]],
        "dag": stages,
        "memory": charts.memory_cards(plan),
        "props": {
            ids.KPIS: {"children": panels.kpis(plan, before, _took_s(plan, ran))},
            ids.WHY: {"children": panels.why_panel(plan)},
            ids.MINI_BATCH: {"placeholder": f"auto: {plan['mini_batch']:,}"},
            ids.GANTT_COUNT: {"children": _count(plan, shown)},
            ids.GANTT_LEGEND: {"children": stage_panel.legend(plan)},
            ids.STAGES_NOTE: {"children": stages["note"]},
        },
        **_overlay(view, skeleton, plan, ran),
    }
    if ran is not None:
        message["props"] |= run_drawing.error_legend(theme)
        if look.times != "predicted":
            message |= run_drawing.schedule(plan, ran, look.times, theme)
            message["props"][ids.GANTT_LEGEND] = {"children": run_drawing.legend(look.times)}
    return message


def _took_s(plan: Mapping[str, Any], ran: Mapping[str, Any] | None) -> float | None:
    """What the run took, if that is a time of the plan's objective."""
    return ran["measured_s"] if ran is not None and ran["objective"] == plan["objective"] else None


def window_message(
    skeleton: Skeleton, plan: Mapping[str, Any], theme: Theme, look: Look, window: tuple[float, float], until_s: float
) -> Message:
    """The bars to draw while ``window`` (from and to, in the unit of the axis) is in sight; until_s: where
    the axis of the whole ends."""
    scale, _ = text.time_unit(until_s or 1.0)
    shown, merged = _drawn(plan, (window[0] * scale, window[1] * scale))
    lanes = gantt_rows.rows_of(plan, look.rows, look.links, shown)
    return {
        "type": "bars",
        "data": _figure(plan, shown, skeleton, lanes, theme, until_s, None, (window[1] - window[0]) * scale)["data"],
        "bars": _columns(plan, shown, lanes.of_bar, skeleton, scale),
        "detail": {"merged": merged, "from": window[0], "to": window[1]},
    }


def search_message(steps: list[search.Step], running: bool, elapsed_s: float | None = None) -> Message:
    """The chart of a search: what `search.curve` says, with its numbers as text."""
    told = search.curve(steps, elapsed_s)
    gap = 1 - told["bound_s"] / told["best_s"] if told["best_s"] else None
    bound = text.seconds(told["bound_s"]) if told["bound_s"] else "none proved"
    words = "No plan yet."
    if told["best_s"] is not None:
        better = 1 - told["best_s"] / told["first_s"]
        found = text.plural(told["plans"], "plan")
        words = (found if running else f"{found} in {text.seconds(told['end_s'])}") + (
            f": {text.seconds(told['first_s'])} to {text.seconds(told['best_s'])}, −{text.percent(better)}"
            if told["plans"] > 1 else f": {text.seconds(told['best_s'])}"
        )  # fmt: skip
    return {
        "type": "search",
        "running": running,
        "elapsed_s": told["end_s"],
        "curve": told | {
            "high": text.seconds(told["high_s"]),
            "low": text.seconds(told["low_s"]),
            "end": text.seconds(told["end_s"]),
            "best_text": text.seconds(told["best_s"]),
            "bound_text": bound,
            "gap": text.percent(gap) if gap is not None and told["bound_s"] else text.NOTHING,
            "words": words,
        },
    }  # fmt: skip


def _drawn(plan: Mapping[str, Any], window: tuple[float, float]) -> tuple[Bars, bool]:
    """The bars to draw for a window in seconds, and whether there are runs among them that come apart."""
    if not plan["by_operator"]:
        return repeated.drawn(plan, window)
    return operator_bars.drawn(plan["bars"], window)


def _figure(
    plan: Mapping[str, Any],
    shown: Bars,
    skeleton: Skeleton,
    lanes: Rows,
    theme: Theme,
    until_s: float,
    mark: tuple[str, float] | None,
    width_s: float,
) -> dict[str, Any]:
    """width_s: of the part of the schedule that is in sight."""
    names = [d["name"] for d in plan["devices"]]
    hover, edged_s = None, EDGED_SHARE * width_s
    if plan["by_operator"]:
        hover = OperatorWords(plan["bars"], skeleton["names"], names, plan["links"]).hover
    return gantt.figure(shown, names, plan["span_s"], theme, None, lanes, until_s, mark, hover, edged_s)


def _columns(
    plan: Mapping[str, Any], found: Bars, rows: tuple[int, ...], skeleton: Skeleton, scale: float
) -> dict[str, Any]:
    """Bars as the browser needs them. key: what is highlighted together, the stage of a bar or, where
    operators are scheduled one by one, the forward operator that it belongs to."""
    anchors = skeleton["anchors"]
    return {
        "row": rows,
        "device": found["device"],
        "stage": found["stage"],
        "key": [anchors[o] if o >= 0 else -1 for o in found["operator"]] if plan["by_operator"] else found["stage"],
        "operator": found["operator"],
        "micro": found["micro_batch"],
        "label": [repeated.label(found, i) for i in range(len(found["kind"]))] if REPEATED in found["kind"] else None,
        "kind": found["kind"],
        "to": found["to_device"],
        "start": [round(s / scale, 6) for s in found["start_s"]],
        "end": [round(s / scale, 6) for s in found["end_s"]],
    }


def _spans(plan: Mapping[str, Any], look: Look, skeleton: Skeleton, scale: float) -> dict[str, Any]:
    """All bars of a schedule, for what is highlighted where runs are drawn."""
    found = plan["bars"]
    told = _columns(plan, found, gantt_rows.rows_of(plan, look.rows, look.links).of_bar, skeleton, scale)
    return {name: told[name] for name in SPAN_COLUMNS}


def _path(plan: Mapping[str, Any], lanes: Rows, scale: float) -> dict[str, Any]:
    path = plan["path"]
    return {
        "row": gantt_rows.path_rows(lanes, plan),
        "link": [link >= 0 for link in path["link"]],
        "start": [round(s / scale, 6) for s in path["start_s"]],
        "end": [round(s / scale, 6) for s in path["end_s"]],
    }


def _count(plan: Mapping[str, Any], shown: Bars) -> str:
    """ "one pass · 2,594 spans", or as how many bars they are drawn."""
    bars = len(shown["device"])
    order = "one pass" if plan["pipeline"] == "none" else plan["pipeline"].upper()
    merged = f"{plan['spans']:,} spans as {bars:,} bars"
    return f"{order} · {merged if plan['spans'] > bars else text.plural(plan['spans'], 'span')}"


def tables(
    view: GraphView,
    skeleton: Skeleton,
    plan: Mapping[str, Any],
    shown: frozenset[str],
    ran: Mapping[str, Any] | None = None,
    look: Look | None = None,
) -> dict[str, Any]:
    """Properties of the tables in ``shown``: those a person has opened. ran and look: as in `plan_message`."""
    props: dict[str, Any] = {}
    if "devices" in shown:
        props[ids.DEVICE_TABLE] = {"children": panels.device_table(plan)}
    if "log" in shown:
        props[ids.LOG] = {"children": panels.log_lines(plan)}
        props[ids.FOUND_BY] = {"children": panels.found_by(plan)}
    if ids.GANTT_TABLE in shown:
        names = [d["name"] for d in plan["devices"]]
        columns = [("device", "Device"), ("what", "What"), ("start", "Start"), ("end", "End"), ("took", "Took")]
        rows = bars_table(plan["bars"], names, operators=skeleton["names"])
        props[ids.GANTT_TABLE] = {"children": panels.table(columns, rows, "Schedule", text_columns=2)}
    if ids.STAGE_TABLE in shown:
        columns = [
            ("stage", "Stage"),
            ("devices", "Devices"),
            ("times", "Forward / backward"),
            ("share", "Share"),
            ("flight", "In flight"),
            ("samples", "Samples"),
            ("peak", "Peak memory"),
            ("depth", "Depth"),
            ("feeds", "Feeds"),
        ]
        rows = stage_boxes.table(plan)
        props[ids.STAGE_TABLE] = {"children": panels.table(columns, rows, "Stages", text_columns=2)}
    if ids.GRAPH_TABLE in shown:
        nodes = elements.assignment(view, skeleton, plan["placement"], plan["samples"])["nodes"]
        columns = [
            ("name", "Module or operator"),
            ("devices", "Device"),
            ("operators", "Operators"),
            ("parameters", "Parameters"),
            ("feeds", "Feeds"),
        ]
        rows = elements.table(view, skeleton, nodes)
        props[ids.GRAPH_TABLE] = {"children": panels.table(columns, rows, "Graph", text_columns=1)}
    if ran is not None:
        props |= run_drawing.tables(view, skeleton, plan, shown, ran, look or Look())
    return props


def _overlay(
    view: GraphView, skeleton: Skeleton, plan: Mapping[str, Any], ran: Mapping[str, Any] | None
) -> dict[str, Any]:
    found = elements.assignment(view, skeleton, plan["placement"], plan["samples"])
    largest = max((cut[1] for cut in found["cuts"].values()), default=0.0)
    return {
        "nodes": found["nodes"],
        "cuts": {
            edge: [label, round(2.0 + 3.0 * (size / largest if largest else 0.0), 2)]
            for edge, (label, size) in found["cuts"].items()
        },
        "stages": {name: sorted({plan["stage_of"][i] for i in members}) for name, members in view.boxes.items()},
        "keys": {name: sorted({skeleton["anchors"][i] for i in members}) for name, members in view.boxes.items()}
        if plan["by_operator"]
        else None,
        "pinned": pinning.whole(plan["pinned"], view, skeleton),
        "errors": None if ran is None else run_drawing.over_graph(view, ran),
    }
