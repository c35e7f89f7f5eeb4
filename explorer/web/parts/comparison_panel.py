"""The comparison as Dash components: one row a planner; a click on one shows its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dash import html
from dash.development.base_component import Component

from explorer.view.comparison import TableRow
from explorer.words import text

HINTS = {
    "bound": "The lower bound that this planner proved",
    "gap": "To the best bound that any of them proved",
    "sample": "The objective, for one sample of the mini-batch",
    "rate": "Samples per second",
    "peak": "Of the accelerator that needs most",
}
ALIKE = "Not distinguished from the best: what they do otherwise is estimated to no better than their times differ"
TITLES = {"iteration": "Iteration time", "max-load": "Max-load", "makespan": "Makespan"}


def comparison_table(
    rows: Sequence[TableRow], left_out: Sequence[Mapping[str, str]], objective: str, several: bool
) -> Component:
    """rows and left_out: of `explorer.view.comparison`, with can_show in each of rows. several: whether
    contiguities differ."""
    rate, steady = ("rate", "Samples/s", "n wide"), objective == "max-load"  # then of the iteration, beside it
    columns = [
        ("objective", TITLES[objective], "n"),
        ("bound", "Bound", "n"),
        ("gap", "Gap", "n"),
        ("word", "Status", ""),
        ("peak", "Peak memory", "n"),
        ("runtime", "Solver time", "n"),
        *([("sample", "Per sample", "n wide")] if any(row["cells"]["sample"] != text.NOTHING for row in rows) else []),
        *([] if steady else [rate]),
        *((name, title, "n wide") for name, title in reversed(TITLES.items()) if name != objective),
        *([rate] if steady else []),
    ]
    if several:  # there is no room for more: these are shown where one points at a time
        columns = [column for column in columns if column[0] not in ("sample", "rate")]
        columns.insert(0, ("contiguity", "Contiguity", ""))
    head = [
        html.Th("Planner", scope="col"),
        *[html.Th(title, scope="col", className=side, title=HINTS.get(key)) for key, title, side in columns],
    ]
    body = [_row(row, columns) for row in rows]
    body += [_left_out(left, len(head)) for left in left_out]
    return html.Table(
        [html.Caption("Planners compared", className="sr"), html.Thead(html.Tr(head)), html.Tbody(body)],
        className="comparison",
    )


def _row(row: TableRow, columns: Sequence[tuple[str, str, str]]) -> Component:
    shown = row["cells"]
    what = f"{shown['guarantee']}; {shown['source']}"
    name: list[str | Component] = [
        html.Button(shown["planner"], className="row-link", title=f"Show this plan ({what})")
        if row.get("can_show")
        else html.Span(shown["planner"], title=what)
    ]
    if row["best"]:
        name += [" ", html.Span("best", className="tag")]
    if row["alike"]:
        name += [" ", html.Span("alike", className="tag", title=ALIKE)]
    if row["current"]:
        name += [" ", html.Span("shown", className="tag plain")]
    attributes: dict[str, str] = {"key": f"row{row['place']}", "className": "out"}
    if row["current"]:
        attributes["aria-current"] = "true"
    if row.get("can_show"):
        attributes |= {"className": "plan", "data-act": "show-row", "data-arg": str(row["place"])}
    each = [f"{shown['sample']} a sample"] if shown["sample"] != text.NOTHING else []
    within = [shown["within"]] if shown["within"] != text.NOTHING else []
    titles = {"word": shown["status"], "objective": ", ".join([*within, *each, f"{shown['rate']} samples/s"])}
    cells = [html.Td(shown[key], className=side, title=titles.get(key)) for key, _, side in columns]
    return html.Tr([html.Th(name, scope="row"), *cells], **attributes)


def _left_out(left: Mapping[str, str], columns: int) -> Component:
    names = html.Span(left["planners"], className="names")
    words = f" {left['status']}: {left['reason']}"
    key = f"out {left['planners']} {left['reason']}"
    return html.Tr(html.Td([names, words], colSpan=columns, className="reason"), className="out", key=key)
