"""A result as values of other libraries (a plotly figure, a networkx graph, a pandas frame), and as lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx

from explorer.costs.interval import and_interval
from explorer.view.graph.palette import swatch
from explorer.view.graph.skeleton import skeleton
from explorer.view.plan_types import PlanView, Skeleton
from explorer.view.plan_view import devices, result_view
from explorer.view.scene import schedule_scene
from explorer.view.session import Look
from explorer.words import text
from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import Metrics, evaluate
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Result, Status
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.problem import Problem

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

ROW_PX, AROUND_PX = 34, 60
"""Pixels of a row of a figure, and around them all."""
EDGE = 0.6
MARKS = 3
"""Colours beside a row's name."""
UNNUMBERED = "RUT"
"""Kinds of bars that have no number of a micro-batch written on them."""


def figure(result: Result) -> go.Figure:
    """The schedule, as on the page. Raises ImportError without plotly, InvalidProblem for a result without a plan."""
    try:
        import plotly.graph_objects as go
    except ModuleNotFoundError as error:
        raise ImportError("a figure needs plotly: pip install plotly") from error
    view = result_view(result)
    if view is None:
        raise InvalidProblem(f"the result has no plan to draw: its status is {result.status.value}")
    scene = schedule_scene(skeleton_of(result), view, "light", Look())
    shown, rows = scene["figure"], scene["rows"]
    made = go.Figure({"data": [_trace(lane, scene["bars"]) for lane in shown["lanes"]], "layout": _layout(shown, rows)})
    made.update_layout(height=round(ROW_PX * sum(rows["height"]) + AROUND_PX))
    return made


def _trace(lane: Mapping[str, Any], bars: Mapping[str, Any]) -> dict[str, Any]:
    """A lane of `explorer.view.timeline.canvas.lanes_object` as bars of plotly, with the numbers of micro-batches."""
    hatch, edge, labels = lane.get("hatch"), lane.get("edge"), bars["label"] or [""] * len(bars["micro"])
    marker: dict[str, Any] = {"color": lane["fill"], "line": {"width": 0}}
    if edge:
        marker["line"] = {"width": EDGE, "color": edge["colour"]}
    if hatch:
        marker["pattern"] = {
            "shape": hatch["shape"], "bgcolor": lane["fill"], "fgcolor": hatch["ink"], "fgopacity": hatch["strength"],
            "size": 6, "solidity": 0.22,
        }  # fmt: skip
    numbers = [
        labels[i] or ("" if bars["micro"][i] < 0 or bars["kind"][i] in UNNUMBERED else str(bars["micro"][i]))
        for i in lane["at"]
    ]
    return {
        "type": "bar",
        "orientation": "h",
        "name": lane["name"],
        "base": lane["from"],
        "x": lane["long"],
        "y": [lane["y"]] * len(lane["at"]),
        "width": lane["tall"],
        "hovertext": lane["words"],
        "hoverinfo": "text",
        "marker": marker,
        "text": numbers,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "inside",
        "textfont": {"size": 11, "color": lane.get("ink", lane["fill"])},
    }


def _layout(shown: Mapping[str, Any], rows: Mapping[str, Any]) -> dict[str, Any]:
    colours = shown["colours"]
    squares = [
        "".join(f'<span style="color:{swatch(device, "light").fill}">■</span>' for device in devices[:MARKS])
        for devices in rows["devices"]
    ]
    names = [f"{before} {text.plain(label)}" for before, label in zip(squares, rows["label"], strict=True)]
    bands = [
        {"type": "path", "layer": "below", "path": band["path"], "fillcolor": band["fill"], "line": {"width": 0}}
        for band in shown["bands"]
    ]
    return {
        "barmode": "overlay",
        "bargap": 0,
        "showlegend": False,
        "uniformtext": {"minsize": 8, "mode": "hide"},
        "hovermode": "closest",
        "margin": {"l": shown["left"], "r": 12, "t": 26, "b": 6},
        "paper_bgcolor": colours["background"],
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 11, "color": colours["text"]},
        "shapes": bands,
        "xaxis": {"side": "top", "range": [0, shown["axis"]["end"]], "ticksuffix": f" {shown['axis']['unit']}",
                  "gridcolor": colours["grid"], "zeroline": False},
        "yaxis": {"range": [shown["low"], shown["high"]], "fixedrange": True, "tickvals": rows["middle"],
                  "ticktext": names, "showgrid": False, "zeroline": False},
    }  # fmt: skip


def metrics(result: Result) -> Metrics:
    """Raises InvalidProblem for a result without a plan."""
    if result.plan is None:
        raise InvalidProblem(f"the result has no plan to measure: its status is {result.status.value}")
    return evaluate(result.problem, result.plan)


def graph(result: Result) -> nx.DiGraph[str]:
    """Nodes are operators by name: op_type, phase, module, parameters (bytes) and, with a plan, stages, devices (by
    name) and compute_s of one micro-batch. Edges go from producers to consumers: nbytes, of one micro-batch, and with a
    plan whether they are ``cut``."""
    problem, view = result.problem, result_view(result)
    operators = problem.graph.operators
    operator_graph: nx.DiGraph[str] = nx.DiGraph(name=problem.graph.name)
    for row in _rows(result, view):
        operator_graph.add_node(row.pop("name"), **row)
    samples = problem.graph.samples if view is None else view["samples"]
    for tensor in problem.graph.tensors:
        for consumer in tensor.consumers:
            ends = operators[tensor.producer].name, operators[consumer].name
            before = operator_graph.edges[ends]["nbytes"] if operator_graph.has_edge(*ends) else 0.0
            attributes: dict[str, Any] = {"nbytes": before + tensor.nbytes.at(samples)}
            if view is not None:
                attributes["cut"] = not set(view["placement"][consumer]) <= set(view["placement"][tensor.producer])
            operator_graph.add_edge(*ends, **attributes)
    return operator_graph


def frame(result: Result) -> pd.DataFrame:
    """A row for every operator, by name; columns as the attributes of `graph`'s nodes, and saved_bytes of one
    micro-batch. Raises ImportError without pandas."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise ImportError("a frame needs pandas: pip install pandas") from error
    return pd.DataFrame(_rows(result, result_view(result))).set_index("name")


def _rows(result: Result, view: PlanView | None) -> list[dict[str, Any]]:
    problem = result.problem
    names = [device["name"] for device in devices(problem)]
    samples = problem.graph.samples if view is None else view["samples"]
    stages: dict[int, list[int]] = {}
    for number, stage in enumerate(result.plan.stages if result.plan is not None else ()):
        for position in stage.operators:
            stages.setdefault(position, []).append(number)
    rows = []
    for i, operator in enumerate(problem.graph.operators):
        row: dict[str, Any] = {
            "name": operator.name,
            "op_type": operator.op_type,
            "phase": operator.phase.value,
            "module": operator.module_path,
            "parameters": operator.param_bytes,
            "saved_bytes": operator.saved_bytes.at(samples),
        }
        if view is not None:
            row |= {
                "stages": tuple(stages.get(i, ())),
                "devices": tuple(names[device] for device in view["placement"][i]),
                "compute_s": view["seconds"][i],
            }
        rows.append(row)
    return rows


def skeleton_of(value: Result | Workload | OpGraph) -> Skeleton:
    """The plain-data twin of the graph of a value."""
    if isinstance(value, Workload):
        return skeleton(value)
    graph = value.problem.graph if isinstance(value, Result) else value
    training = value.problem.training if isinstance(value, Result) else graph.trains
    return skeleton(Workload(graph, graph.name, training=training))


def result_line(result: Result) -> str:
    """ "gpt on 4 x H100-80GB: 371 ms an iteration, proved optimal (auto, 1.2 s)"."""
    where = f"{result.problem.graph.name} on {cluster_words(result.problem)}"
    how = f"{result.planner}, {text.seconds(result.runtime_s)}"
    if result.plan is None:
        why = "; ".join(result.notes) or text.words(result.stop_reason.value)
        return f"{where}: {text.words(result.status.value)}: {why} ({how})"
    if result.status is Status.OPTIMAL:
        proof = "proved optimal"
    else:
        proof = text.from_best(result.objective_s, result.bound_s) if result.bound_s else "no bound proved"
    within = and_interval(result.problem, result.plan, result.objective_s)
    return f"{where}: {text.seconds(result.objective_s)}{within} {result.problem.objective.value}, {proof} ({how})"


def plan_line(plan: Plan) -> str:
    """ "Plan of 4 stages on 4 devices, 1f1b"."""
    used = text.plural(len(plan.devices_used()), "device")
    stages = text.plural(len(plan.stages), "stage")
    operators = text.plural(len(plan.placement()), "operator")
    return f"Plan: {operators} in {stages} on {used}, {'one pass' if plan.pipeline == 'none' else plan.pipeline}"


def graph_line(graph: OpGraph) -> str:
    """ "gpt: 787 operators (262 forward), 900 tensors, traced at 1 sample"."""
    forward = sum(1 for operator in graph.operators if operator.phase is Phase.FORWARD)
    parts = f"{text.plural(len(graph), 'operator')} ({text.count(forward)} forward)"
    return f"{graph.name}: {parts}, {text.plural(len(graph.tensors), 'tensor')}, batch {graph.samples:,}"


def workload_line(workload: Workload) -> str:
    """`graph_line`, with parameters and where its costs are from."""
    parameters = f", {text.large(workload.parameters)} parameters" if workload.parameters else ""
    return f"{graph_line(workload.graph)}{parameters}, costs {workload.costs_from}"


def cluster_words(problem: Problem) -> str:
    """ "4 × H100-80GB + 1 × cpu"."""
    return text.counted(device.kind for device in problem.cluster.devices)
