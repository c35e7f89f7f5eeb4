"""A run laid over the drawing of its plan: its schedule over the predicted one, its errors over the graph."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from explorer.view.graph import errors
from explorer.view.graph.elements import GraphView
from explorer.view.graph.palette import Theme
from explorer.view.plan_types import Bars, PlanView, Report, Skeleton
from explorer.view.scene import BarColumns, Path, PlanScene
from explorer.view.session import Look
from explorer.view.timeline import measured_gantt
from explorer.view.timeline.gantt_rows import row_columns
from explorer.web.contract import ids
from explorer.web.contract.messages import Props
from explorer.web.parts import panels
from explorer.words import text

NO_PATH: Path = {"row": [], "link": [], "start": [], "end": []}


def until_s(comparison: Report) -> float:
    """Where the time axis ends that the prediction and the run share."""
    ends: tuple[float, float] = comparison["predicted_s"], comparison["drawn_s"]
    return max(ends)


def schedule(predicted: PlanScene, plan: PlanView, comparison: Report, times: str, theme: Theme) -> PlanScene:
    """The scene of a plan's schedule with the run's times. times: "measured", or "both", the prediction above the run
    in each row."""
    names = [device["name"] for device in plan["devices"]]
    both = times == "both"
    figure = measured_gantt.figure(comparison, names, theme, both)
    upper, lower = comparison["bars"]["predicted"], comparison["bars"]["measured"]
    rows = measured_gantt.run_rows(comparison, names)
    place = {row.devices[0]: number for number, row in enumerate(rows.rows)}
    scale, _ = text.time_unit(until_s(comparison) or 1.0)
    lanes = [upper, lower] if both else [lower]
    bars = _joined([_columns(lane, place, scale, bool(plan["by_operator"])) for lane in lanes])
    end = until_s(comparison) / scale
    return {
        **predicted,
        "figure": figure,
        "bars": bars,
        "spans": None,
        "detail": {"merged": False, "from": 0.0, "to": end},
        "rows": {
            **row_columns(rows, [device["node"] for device in plan["devices"]]),
            "can": False,
            "can_link": False,
            "links": False,
            "path": False,
        },
        "path": NO_PATH,
        "scale_s": scale,
    }


def legend(times: str) -> list[Component]:
    """What the lanes are, for the schedule's legend."""
    shown = ("predicted", "measured", "wait") if times == "both" else ("measured", "wait")
    words = {entry["key"]: entry["label"] for entry in measured_gantt.legend()}
    if times != "both":
        words["measured"] = "measured"
    return [
        html.Div(
            [html.Span([html.I(className=f"key lane-{key}"), words[key]], className="legend") for key in shown],
            className="kinds",
        )
    ]


def over_graph(view: GraphView, comparison: Report) -> errors.BoxErrors:
    """Class and label of every box, for the colouring by errors."""
    shown = errors.box_errors(view, comparison)
    for name, members in view.boxes.items():
        ratio = errors.ratio_of(*errors.seconds_of(comparison, members))
        if ratio is not None and math.isfinite(ratio):
            shown["labels"][name] = f"{ratio:.1f}×"  # in a box there is no room for more
    return shown


def facts(kind: str, which: str, view: GraphView, comparison: Report) -> list[tuple[str, str]]:
    """What the run says of a box or a device, as rows of the inspector."""
    if kind == "box" and which in view.boxes:
        predicted, measured = errors.seconds_of(comparison, view.boxes[which])
        ratio = errors.ratio_of(predicted, measured)
        if ratio is None:
            return [("Measured", "not by itself")]
        return [
            ("Predicted an iteration", text.seconds(predicted)),
            ("Measured", f"{text.seconds(measured)}, {errors.times_text(ratio)}"),
        ]
    devices = [device for device in comparison["devices"] if kind == "device" and str(device["device"]) == which]
    return [
        row
        for device in devices
        for row in (
            ("Busy, predicted", text.seconds(device["busy_predicted_s"])),
            ("Busy, measured", text.seconds(device["busy_measured_s"])),
            ("Waited", text.seconds(device["wait_s"])),
            ("Peak, measured", text.nbytes(device["peak_measured_bytes"])),
        )
    ]


def error_legend(theme: Theme) -> Props:
    """Properties of the legend of the errors' colours."""
    colours = errors.legend(theme)
    stops = [
        html.Span([html.I(style={"background": stop["fill"]}), html.Span(stop["label"])], className="stop")
        for stop in colours["stops"]
    ]
    none = html.Span(
        [html.I(style={"background": colours["none"]["fill"], "borderColor": colours["none"]["border"]}),
         "unmeasured"],
        className="none",
        title=colours["none"]["label"],
    )  # fmt: skip
    fast, slow = (html.Span(word.split()[0], title=word) for word in colours["words"])
    children = [
        html.B(colours["title"], className="wide-only"),
        fast,
        html.Span(stops, className="stops"),
        slow,
        none,
    ]
    return {ids.ERROR_LEGEND: {"children": children}}


SCHEDULE = (("device", "Device"), ("what", "What"), ("start", "Start"), ("took", "Took"), ("predicted", "Predicted"),
            ("off", "Off"), ("waited", "Waited"))  # fmt: skip
ERRORS = (("name", "Module or operator"), ("how", "Known by"), ("predicted", "Predicted"), ("measured", "Measured"),
          ("off", "Off"), ("ratio", "Ratio"))  # fmt: skip


def tables(
    view: GraphView,
    skeleton: Skeleton,
    plan: PlanView,
    shown: frozenset[str],
    comparison: Report,
    look: Look,
) -> Props:
    """The table twins of what is drawn of a run, those in ``shown``."""
    props: dict[str, Mapping[str, object]] = {}
    if ids.GANTT_TABLE in shown and look.times != "predicted":
        rows = measured_gantt.table(comparison, [device["name"] for device in plan["devices"]])
        props[ids.GANTT_TABLE] = {"children": panels.table(SCHEDULE, rows, "Measured schedule", text_columns=2)}
    if ids.GRAPH_TABLE in shown and look.colour == "errors":
        rows = errors.table(view, skeleton, comparison)
        props[ids.GRAPH_TABLE] = {"children": panels.table(ERRORS, rows, "Errors", text_columns=2)}
    return props


def _columns(bars: Bars, place: Mapping[int, int], scale: float, by_operator: bool) -> BarColumns:
    """Bars as the browser needs them; see `explorer.web.redraw.drawing`."""
    return {
        "row": [place.get(device, -1) if kind != "T" else -1
                for device, kind in zip(bars["device"], bars["kind"], strict=True)],
        "device": list(bars["device"]),
        "stage": list(bars["stage"]),
        "key": [-1] * len(bars["device"]) if by_operator else list(bars["stage"]),
        "operator": list(bars["operator"]),
        "micro": list(bars["micro_batch"]),
        "kind": list(bars["kind"]),
        "to": list(bars["to_device"]),
        "start": [round(s / scale, 6) for s in bars["start_s"]],
        "end": [round(s / scale, 6) for s in bars["end_s"]],
    }  # fmt: skip


def _joined(parts: Sequence[BarColumns]) -> BarColumns:
    return {name: [value for part in parts for value in part[name] or ()] for name in parts[0]}
