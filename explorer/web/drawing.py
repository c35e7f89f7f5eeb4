"""The messages that draw: the graph of a model, and a plan laid over it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dash import html

from explorer.view import charts, elements, gantt, gantt_rows, stage_boxes, text
from explorer.view.bars import table as bars_table
from explorer.view.elements import GraphView
from explorer.view.palette import Theme
from explorer.view.skeleton import Skeleton
from explorer.web import ids, panels, stage_panel

Message = dict[str, Any]
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


def overlay_message(view: GraphView, skeleton: Skeleton, plan: Mapping[str, Any]) -> Message:
    """Devices, cut tensors and stages of the boxes: what a plan lays over a graph."""
    return {"type": "overlay", **_overlay(view, skeleton, plan)}


def plan_message(
    view: GraphView,
    skeleton: Skeleton,
    plan: Mapping[str, Any],
    theme: Theme,
    before_s: float | None,
    rows: str = "auto",
    beside: tuple[str, float] | None = None,
) -> Message:
    """Everything a new plan changes on the page, but the tables that are shut. rows: what a row of the
    schedule is; beside: name and end of another plan at whose time scale this one is drawn."""
    names = [d["name"] for d in plan["devices"]]
    found = plan["bars"]
    until_s = max(plan["span_s"], beside[1] if beside else 0.0)
    scale, _ = text.time_unit(until_s or 1.0)
    mark = None
    if beside is not None and abs(beside[1] / (plan["span_s"] or 1.0) - 1) > SAME_END:
        mark = (f"{beside[0]} ends at {text.seconds(beside[1])}", beside[1])
    lanes = gantt_rows.rows_of(plan, rows)
    merged = plan["spans"] > len(found["device"])
    note = f"{plan['spans']:,} spans as {len(found['device']):,} bars" if merged else text.plural(plan["spans"], "span")
    order = "one pass" if plan["pipeline"] == "none" else plan["pipeline"].upper()
    stages = stage_boxes.stage_boxes(plan)
    return {
        "type": "plan",
        "figure": gantt.figure(found, names, plan["span_s"], theme, None, lanes, until_s, mark),
        "bars": {
            "row": lanes.of_bar,
            "device": found["device"],
            "stage": found["stage"],
            "micro": found["micro_batch"],
            "kind": found["kind"],
            "to": found["to_device"],
            "start": [round(s / scale, 6) for s in found["start_s"]],
            "end": [round(s / scale, 6) for s in found["end_s"]],
        },
        "rows": {
            "kind": lanes.kind,
            "stages": [row.stage for row in lanes.rows],
            "devices": [row.devices for row in lanes.rows],
            "can": gantt_rows.can_stages(plan),
        },
        "devices": names,
        "dag": stages,
        "memory": charts.memory_cards(plan),
        "props": {
            ids.KPIS: {"children": panels.kpis(plan, before_s)},
            ids.WHY: {"children": panels.why_panel(plan)},
            ids.MINI_BATCH: {"placeholder": f"auto: {plan['mini_batch']:,}"},
            ids.GANTT_COUNT: {"children": f"{order} · {note}"},
            ids.GANTT_LEGEND: {"children": stage_panel.legend(plan)},
            ids.STAGES_NOTE: {"children": stages["note"]},
        },
        **_overlay(view, skeleton, plan),
    }


def tables(view: GraphView, skeleton: Skeleton, plan: Mapping[str, Any], shown: frozenset[str]) -> dict[str, Any]:
    """Properties of the tables in ``shown``: those a person has opened."""
    props: dict[str, Any] = {}
    if "devices" in shown:
        props[ids.DEVICE_TABLE] = {"children": panels.device_table(plan)}
    if "log" in shown:
        props[ids.LOG] = {"children": panels.log_lines(plan)}
    if ids.GANTT_TABLE in shown:
        names = [d["name"] for d in plan["devices"]]
        columns = [("device", "Device"), ("what", "What"), ("start", "Start"), ("end", "End"), ("took", "Took")]
        rows = bars_table(plan["bars"], names)
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
    return props


def _overlay(view: GraphView, skeleton: Skeleton, plan: Mapping[str, Any]) -> dict[str, Any]:
    found = elements.assignment(view, skeleton, plan["placement"], plan["samples"])
    largest = max((cut[1] for cut in found["cuts"].values()), default=0.0)
    return {
        "nodes": found["nodes"],
        "cuts": {
            edge: [label, round(2.0 + 3.0 * (size / largest if largest else 0.0), 2)]
            for edge, (label, size) in found["cuts"].items()
        },
        "stages": {name: sorted({plan["stage_of"][i] for i in members}) for name, members in view.boxes.items()},
    }
