"""The messages that draw: the graph of a model, and a plan laid over it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dash import html

from explorer.view.figures import Figures
from explorer.view.graph import elements, search, stage_boxes
from explorer.view.graph.elements import GraphView
from explorer.view.graph.errors import BoxErrors
from explorer.view.graph.palette import Theme
from explorer.view.plan_types import PlanView, Report, Skeleton, Step
from explorer.view.scene import graph_scene, overlay_scene, schedule_scene, window_scene
from explorer.view.session import Look
from explorer.view.timeline.bars import table as bars_table
from explorer.web.contract import ids
from explorer.web.contract.messages import BarsMessage, Graph, Overlay, PlanPicture, Props, SearchMessage
from explorer.web.parts import panels, stage_panel
from explorer.web.redraw import run_drawing
from explorer.words import text

SAME_END = 0.002
"""Two schedules whose ends differ by less, relatively, end together to people."""


def graph_message(view: GraphView, skeleton: Skeleton) -> Graph:
    """Sent once per model and level of detail."""
    scene = graph_scene(view, skeleton)
    props: Props = {
        ids.GRAPH_COUNT: {"children": scene["count"]},
        ids.GRAPH_DEPTH: {"children": [html.Span("level ", className="roomy"), scene["depth"]]},
    }
    return {"type": "graph", "of": skeleton["graph"], **scene, "props": props}


def least_cap(skeleton: Skeleton, cap_bytes: float | None) -> int:
    """Where the memory slider begins, as log2 GiB: 1 GiB, or less for a model that needs less."""
    needed = sum(skeleton["params"]) * 4 / 64
    least = min(text.GIB, max(needed, 2**20), cap_bytes or text.GIB)
    return math.floor(math.log2(least / text.GIB))


def overlay_message(view: GraphView, skeleton: Skeleton, plan: PlanView, ran: Report | None = None) -> Overlay:
    """What a plan lays over a graph; and what its run does."""
    return {"type": "overlay", **overlay_scene(view, skeleton, plan, _errors(view, ran))}


def plan_message(
    view: GraphView,
    skeleton: Skeleton,
    plan: PlanView,
    theme: Theme,
    before: Figures | None,
    look: Look | None = None,
    beside: tuple[str, float] | None = None,
    ran: Report | None = None,
) -> PlanPicture:
    """Everything a new plan changes on the page, but the tables that are shut. look: rows and links of the
    schedule; beside: name and end of another plan at whose time scale this one is drawn; ran: the comparison
    of its run with it."""
    look = look or Look()
    until_s = max(plan["span_s"], beside[1] if beside else 0.0, run_drawing.until_s(ran) if ran else 0.0)
    mark = None
    if beside is not None and abs(beside[1] / (plan["span_s"] or 1.0) - 1) > SAME_END:
        mark = (f"{beside[0]} ends at {text.seconds(beside[1])}", beside[1])
    scene = schedule_scene(skeleton, plan, theme, look, until_s, mark)
    props: dict[str, Mapping[str, object]] = {
        ids.KPIS: {"children": panels.kpis(plan, before, _took_s(plan, ran))},
        ids.WHY: {"children": panels.why_panel(plan)},
        ids.MINI_BATCH: {"placeholder": f"auto: {plan['mini_batch']:,}"},
        ids.GANTT_COUNT: {"children": scene["count"]},
        ids.GANTT_LEGEND: {"children": stage_panel.legend(plan)},
        ids.STAGES_NOTE: {"children": scene["dag"]["note"]},
    }
    if ran is not None:
        props |= run_drawing.error_legend(theme)
        if look.times != "predicted":
            scene = run_drawing.schedule(scene, plan, ran, look.times, theme)
            props[ids.GANTT_LEGEND] = {"children": run_drawing.legend(look.times)}
    overlay = overlay_scene(view, skeleton, plan, _errors(view, ran))
    return {"type": "plan", "of": plan["graph"], "props": props, **scene, **overlay}


def _errors(view: GraphView, ran: Report | None) -> BoxErrors | None:
    return None if ran is None else run_drawing.over_graph(view, ran)


def _took_s(plan: PlanView, ran: Report | None) -> float | None:
    """What the run took, if that is a time of the plan's objective."""
    return ran["measured_s"] if ran is not None and ran["objective"] == plan["objective"] else None


def window_message(
    skeleton: Skeleton, plan: PlanView, theme: Theme, look: Look, window: tuple[float, float], until_s: float
) -> BarsMessage:
    """See `explorer.view.scene.window_scene`."""
    return {"type": "bars", **window_scene(skeleton, plan, theme, look, window, until_s)}


def search_message(steps: Sequence[Step], running: bool, elapsed_s: float | None = None) -> SearchMessage:
    """The chart of a search."""
    curve = search.curve(steps, elapsed_s)
    best_s, bound_s = curve["best_s"], curve["bound_s"]
    return {
        "type": "search",
        "running": running,
        "elapsed_s": curve["end_s"],
        "curve": {
            **curve,
            "high": text.seconds(curve["high_s"]),
            "low": text.seconds(curve["low_s"]),
            "end": text.seconds(curve["end_s"]),
            "best_text": text.seconds(best_s),
            "bound_text": text.seconds(bound_s) if bound_s else "none proved",
            "gap": text.percent(1 - bound_s / best_s) if best_s and bound_s else text.NOTHING,
            "words": _search_words(curve, running),
        },
    }


def _search_words(curve: search.Curve, running: bool) -> str:
    """ "3 plans in 2 s: 14 ms to 12 ms, −14 %"."""
    best_s, first_s = curve["best_s"], curve["first_s"]
    if best_s is None or first_s is None:
        return "No plan yet."
    words = text.plural(curve["plans"], "plan")
    lead = words if running else f"{words} in {text.seconds(curve['end_s'])}"
    if curve["plans"] == 1:
        return f"{lead}: {text.seconds(best_s)}"
    return f"{lead}: {text.seconds(first_s)} to {text.seconds(best_s)}, −{text.percent(1 - best_s / first_s)}"


SCHEDULE = (("device", "Device"), ("what", "What"), ("start", "Start"), ("end", "End"), ("took", "Took"))
STAGES = (("stage", "Stage"), ("devices", "Devices"), ("times", "Forward / backward"), ("share", "Share"),
          ("flight", "In flight"), ("samples", "Samples"), ("peak", "Peak memory"), ("depth", "Depth"),
          ("feeds", "Feeds"))  # fmt: skip
GRAPH = (("name", "Module or operator"), ("devices", "Device"), ("operators", "Operators"),
         ("parameters", "Parameters"), ("feeds", "Feeds"))  # fmt: skip


def tables(
    view: GraphView,
    skeleton: Skeleton,
    plan: PlanView,
    shown: frozenset[str],
    ran: Report | None = None,
    look: Look | None = None,
) -> Props:
    """Properties of the tables in ``shown``: those a person has opened. ran and look: as in `plan_message`."""
    props: dict[str, Mapping[str, object]] = {}
    if "devices" in shown:
        props[ids.DEVICE_TABLE] = {"children": panels.device_table(plan)}
    if "log" in shown:
        props[ids.LOG] = {"children": panels.log_lines(plan)}
        props[ids.BY_PLANNER] = {"children": panels.by_planner(plan)}
    if ids.GANTT_TABLE in shown:
        names = [d["name"] for d in plan["devices"]]
        bars = bars_table(plan["bars"], names, operators=skeleton["names"])
        props[ids.GANTT_TABLE] = {"children": panels.table(SCHEDULE, bars, "Schedule", text_columns=2)}
    if ids.STAGE_TABLE in shown:
        stages = stage_boxes.table(plan)
        props[ids.STAGE_TABLE] = {"children": panels.table(STAGES, stages, "Stages", text_columns=2)}
    if ids.GRAPH_TABLE in shown:
        nodes = elements.assignment(view, skeleton, plan["placement"], plan["samples"])["nodes"]
        boxes = elements.table(view, skeleton, nodes)
        props[ids.GRAPH_TABLE] = {"children": panels.table(GRAPH, boxes, "Graph", text_columns=1)}
    if ran is not None:
        props |= run_drawing.tables(view, skeleton, plan, shown, ran, look or Look())
    return props
