"""How values show themselves in a notebook: a card with a small picture, in the notebook's light or dark theme."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from explorer.notebook import values
from explorer.notebook.still import card_picture
from explorer.notebook.values import cluster_words, graph_line, plan_line, result_line, skeleton_of, workload_line
from explorer.view.cards import cards
from explorer.view.graph.palette import swatch
from explorer.view.pictures.card import CELL, TABLE, card
from explorer.view.pictures.degrees import degree_map
from explorer.view.plan_types import PlanView
from explorer.view.plan_view import result_view
from explorer.words import text
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.problem.graph import OpGraph

MOST_STAGES = 16
"""Rows of a card."""


def _result_html(result: Result) -> str:
    view = result_view(result)
    title = f"{result.problem.graph.name} on {cluster_words(result.problem)}"
    if view is None:
        facts = [("status", text.words(result.status.value)), ("planner", result.planner)]
        notes = "".join(f"<div>{escape(note[:1].upper() + note[1:])}.</div>" for note in result.notes)
        return card(title, facts, None, notes)
    facts = [(one.name, f"{one.value} · {one.note}" if one.note else one.value) for one in cards(view, None)]
    return card(title, facts, card_picture(skeleton_of(result), view), _degrees_html(view))


def _degrees_html(view: PlanView) -> str:
    """The table over degrees as a heat map; "" where none were searched."""
    degrees = degree_map(view.get("by_degrees", []))
    if degrees is None:
        return ""
    names = ("replicas", *(f"TP {t}" for t in degrees.tensor))
    lines = ["".join(f'<th style="{CELL}right">{name}</th>' for name in names)]
    for data, cells in zip(degrees.data, degrees.cells, strict=True):
        shown = [f'<th style="{CELL}right">{data}</th>']
        for cell in cells:
            shade = f"background:rgba(36,87,214,{0.09 * cell.shade:.2f});" if cell is not None else ""
            weight = "font-weight:600;" if cell is not None and cell.best else ""
            title, words = (escape(cell.title), escape(cell.words)) if cell is not None else ("", "")
            shown.append(f'<td title="{title}" style="{shade}{weight}{CELL}right">{words}</td>')
        lines.append("".join(shown))
    why = "".join(f'<div style="opacity:.75">{escape(of)}: {escape(reason)}</div>' for of, reason in degrees.reasons)
    return f'<table style="{TABLE}">{"".join(f"<tr>{line}</tr>" for line in lines)}</table>{why}'


def _workload_html(workload: Workload) -> str:
    facts = [("operators", text.count(len(workload.graph))), ("tensors", text.count(len(workload.graph.tensors)))]
    if workload.parameters:
        facts.append(("parameters", text.large(workload.parameters)))
    facts += [("batch", text.count(workload.graph.samples)), ("costs", workload.costs_from)]
    notes = "".join(f'<div style="opacity:.75">{escape(note)}</div>' for note in workload.notes)
    return card(workload.reference, facts, card_picture(skeleton_of(workload), None), notes)


def _graph_html(graph: OpGraph) -> str:
    facts = [("operators", text.count(len(graph))), ("tensors", text.count(len(graph.tensors)))]
    return card(graph.name, facts, card_picture(skeleton_of(graph), None))


def _plan_html(plan: Plan) -> str:
    """A plan knows no times: its stages as a table, each with the colours of its devices."""
    lines = []
    for number, stage in enumerate(plan.stages[:MOST_STAGES]):
        marks = "".join(
            f'<span style="display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:3px;'
            f'background:{swatch(device, "light").fill}"></span>'
            for device in stage.devices[:4]
        )
        where = ", ".join(map(str, stage.devices[:8])) + (", …" if len(stage.devices) > 8 else "")
        cells = [f"stage {number}", f"{marks}device {where}", text.plural(len(stage.operators), "operator"),
                 text.plural(stage.micro_batch_size, "sample"), f"{stage.in_flight:,} in flight"]  # fmt: skip
        lines.append("<tr>" + "".join(f'<td style="{CELL}left">{cell}</td>' for cell in cells) + "</tr>")
    left = len(plan.stages) - len(lines)
    more = f"<div>and {text.plural(left, 'more stage')}</div>" if left else ""
    return card(plan_line(plan), (), None, f'<table style="{TABLE}">{"".join(lines)}</table>{more}')


HTML: tuple[tuple[type, Callable[..., str]], ...] = (
    (Result, _result_html),
    (Workload, _workload_html),
    (OpGraph, _graph_html),
    (Plan, _plan_html),
)
TEXT: tuple[tuple[type, Callable[..., str]], ...] = (
    (Result, result_line),
    (Workload, workload_line),
    (OpGraph, graph_line),
    (Plan, plan_line),
)


def html(value: object) -> str:
    """The card of a value. Raises InvalidProblem for one that has none."""
    return _of(HTML, value)


def plain(value: object) -> str:
    """A value as a line of text. Raises InvalidProblem for one that has none."""
    return _of(TEXT, value)


def _of(family: Sequence[tuple[type, Callable[..., str]]], value: object) -> str:
    for kind, show in family:
        if isinstance(value, kind):
            return show(value)
    raise InvalidProblem(f"there is no display of {type(value).__name__}")


DISPLAYS: dict[str, Callable[..., object]] = {
    "html": html,
    "text": plain,
    "figure": values.figure,
    "graph": values.graph,
    "frame": values.frame,
    "metrics": values.metrics,
}
"""What `explorer` hands to the values of `solvers`."""
