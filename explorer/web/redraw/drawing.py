"""The messages that draw: the graph of a model, and a plan laid over it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dash import html

from explorer.view import scene
from explorer.view.figures import Figures
from explorer.view.graph import elements, search, stage_boxes
from explorer.view.graph.elements import GraphView
from explorer.view.graph.palette import Theme
from explorer.view.graph.skeleton import Skeleton
from explorer.view.session import Look
from explorer.view.timeline.bars import table as bars_table
from explorer.web.contract import ids
from explorer.web.parts import panels, stage_panel
from explorer.web.redraw import run_drawing
from explorer.words import text

Message = dict[str, Any]
SAME_END = 0.002
"""Two schedules whose ends differ by less, relatively, end together to people."""


def graph_message(view: GraphView, skeleton: Skeleton) -> Message:
    """Sent once per model and level of detail. of: the hash of the graph, which is that of every plan over it."""
    found = scene.graph_scene(view, skeleton)
    count, depth = found.pop("count"), found.pop("depth")
    return {
        "type": "graph",
        "of": skeleton["graph"],
        **found,
        "props": {
            ids.GRAPH_COUNT: {"children": count},
            ids.GRAPH_DEPTH: {"children": [html.Span("level ", className="roomy"), depth]},
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
    return {"type": "overlay", **scene.overlay_scene(view, skeleton, plan, _errors(view, ran))}


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
    mark = None
    if beside is not None and abs(beside[1] / (plan["span_s"] or 1.0) - 1) > SAME_END:
        mark = (f"{beside[0]} ends at {text.seconds(beside[1])}", beside[1])
    schedule = scene.schedule_scene(skeleton, plan, theme, look, until_s, mark)
    message = {
        "type": "plan",
        "of": plan["graph"],
        "props": {
            ids.KPIS: {"children": panels.kpis(plan, before, _took_s(plan, ran))},
            ids.WHY: {"children": panels.why_panel(plan)},
            ids.MINI_BATCH: {"placeholder": f"auto: {plan['mini_batch']:,}"},
            ids.GANTT_COUNT: {"children": schedule.pop("count")},
            ids.GANTT_LEGEND: {"children": stage_panel.legend(plan)},
            ids.STAGES_NOTE: {"children": schedule["dag"]["note"]},
        },
        **schedule,
        **scene.overlay_scene(view, skeleton, plan, _errors(view, ran)),
    }
    if ran is not None:
        message["props"] |= run_drawing.error_legend(theme)
        if look.times != "predicted":
            message |= run_drawing.schedule(plan, ran, look.times, theme)
            message["props"][ids.GANTT_LEGEND] = {"children": run_drawing.legend(look.times)}
    return message


def _errors(view: GraphView, ran: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if ran is None else run_drawing.over_graph(view, ran)


def _took_s(plan: Mapping[str, Any], ran: Mapping[str, Any] | None) -> float | None:
    """What the run took, if that is a time of the plan's objective."""
    return ran["measured_s"] if ran is not None and ran["objective"] == plan["objective"] else None


def window_message(
    skeleton: Skeleton, plan: Mapping[str, Any], theme: Theme, look: Look, window: tuple[float, float], until_s: float
) -> Message:
    """See `explorer.view.scene.window_scene`."""
    return {"type": "bars", **scene.window_scene(skeleton, plan, theme, look, window, until_s)}


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
