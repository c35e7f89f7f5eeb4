"""Plans that were kept, side by side, and how one differs from the baseline."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from dash import html
from dash.development.base_component import Component

from explorer.reviews.shown import number_row
from explorer.view.graph.palette import THEMES
from explorer.view.pictures.gantt import gantt_picture
from explorer.view.plan_types import PlanView
from explorer.words import text

if TYPE_CHECKING:
    from explorer.reviews.difference import DifferenceView

HINT = "Keeps the plan on the page in this table, to go back to it and to compare it with others."
SHOWN_MOVES = 60
SAME = 0.002
WIDTH = 420.0


class ScenarioRow(TypedDict):
    """A kept plan. cells: figures by name; against: how much faster than the baseline it is, None where they do not
    compare; shown: whether it is on the page."""

    number: int
    name: str
    cells: Mapping[str, str]
    picture: str
    baseline: bool
    against: float | None
    same_question: bool
    shown: bool


def thumbnail(plan: PlanView) -> dict[str, str]:
    """Theme -> an address that holds the whole picture."""
    picture = gantt_picture(plan, rows="devices", links="off", width=WIDTH)
    return {
        theme: "data:image/svg+xml;base64," + base64.b64encode(picture.svg(theme).encode()).decode() for theme in THEMES
    }


def scenarios(
    rows: Sequence[ScenarioRow], difference: DifferenceView | None, names: tuple[str, str], words: str
) -> list[Component]:
    """difference: how the second of ``names`` differs from the first, see
    `explorer.reviews.difference.difference_object`."""
    head = html.Div(
        [
            html.Button("Keep this plan", className="tool strong", **{"data-act": "keep"}),
            html.Span(words or ("" if rows else HINT), className="quiet", role="status"),
        ],
        className="compare-head",
    )
    if not rows:
        return [head]
    return [
        head,
        html.Div(
            [html.Div(_table(rows), className="table-wrap", tabIndex=0), _difference(difference, names)],
            className="scenario-split" if difference else "scenario-whole",
        ),
    ]


def _table(rows: Sequence[ScenarioRow]) -> Component:
    figures = list(rows[0]["cells"])
    titles = ["Plan", "", "Rate", *figures]
    head = html.Tr([html.Th(title, scope="col", className="n" if i > 1 else "") for i, title in enumerate(titles)])
    return html.Table(
        [
            html.Caption("Kept plans", className="sr"),
            html.Thead(head),
            html.Tbody([_row(row, figures) for row in rows]),
        ],
        className="scenarios",
    )


def _row(row: ScenarioRow, figures: Sequence[str]) -> Component:
    number = str(row["number"])
    named = html.B(
        row["name"],
        id=f"scenario-{number}",
        contentEditable="true",
        role="textbox",
        className="scenario-name",
        title="Its name: click to change it",
        **{"aria-label": f"Name of plan {number}"},
    )
    against = row["against"]
    change = "baseline" if row["baseline"] else text.change(1.0, against, SAME, "as fast")
    tone = ""
    if row["same_question"] and against is not None and abs(against - 1) > SAME:
        tone = "good" if against > 1 else "bad"
    title = None if row["same_question"] or not change else "It answers another question: neither is the better one"
    buttons = [_button("Show", "show-kept", number, row["name"])]
    if not row["baseline"]:
        buttons += [
            _button("Compare", "differ", number, f"{row['name']} with the baseline"),
            _button("Baseline", "as-baseline", number, row["name"]),
        ]
    buttons.append(_button("×", "forget", number, f"Leave out {row['name']}"))
    tag = html.Span("shown", className="tag") if row["shown"] else None
    return html.Tr(
        [
            html.Td([named, tag, html.Div(buttons, className="row-actions")]),
            html.Td(html.Img(src=row["picture"], alt="Its schedule", className="thumb")),
            html.Td(change, className=f"n {tone}".strip(), title=title),
            *(html.Td(row["cells"].get(name, text.NOTHING), className="n") for name in figures),
        ],
        **({"aria-current": "true"} if row["baseline"] else {}),
    )


def _button(words: str, act: str, number: str, what: str) -> Component:
    label = {} if act == "forget" else {"aria-label": f"{words}: {what}"}
    return html.Button(words, className="tool", title=what, **{"data-act": act, "data-arg": number, **label})


def _difference(difference: DifferenceView | None, names: tuple[str, str]) -> Component | None:
    if difference is None:
        return None
    title = html.H2(f"{text.short(names[1], 30)} against {text.short(names[0], 30)}")
    if difference["same_plan"]:
        return html.Section([title, html.P("The same plan: question and answer are equal.")], className="difference")
    moved = difference["moved_operators"]
    lead = f"{text.count(moved)} of {text.plural(difference['operators'], 'operator')} moved; bright in the graph."
    lead += f" This plan is {difference['verdict']}." if difference["verdict"] else ""
    splits = ["–".join(map(str, sorted({min(c), max(c)}))) for c in difference["micro_batches"]]
    counts = (("micro-batches", *splits, ""), ("stages", *map(str, difference["stages"]), ""))
    rows = [
        *(counted for counted in counts if counted[1] != counted[2]),
        *(number_row(one["what"], one["unit"], one["first"], one["second"]) for one in difference["numbers"]),
        *(number_row(f"peak memory, {one['second'] or one['first']}", "bytes", *one["peak_bytes"])
          for one in difference["devices"]),
    ]  # fmt: skip
    moves = [
        html.Li(
            [html.B(one["module"] or "(no module)"), f" {one['from']} → {one['to']} · {one['operators']} operators"]
        )
        for one in difference["moved"][:SHOWN_MOVES]
    ]
    head = html.Tr([html.Th(""), *(html.Th(name, className="n") for name in ("Baseline", "This", "Change"))])
    body = [
        html.Tr([html.Td(what), *(html.Td(shown, className="n") for shown in shown_as)]) for what, *shown_as in rows
    ]
    questions = [html.P(f"Asked otherwise: {'; '.join(difference['questions_differ'])}.", className="small quiet")]
    return html.Section(
        [
            title,
            html.P(lead),
            *(questions if difference["questions_differ"] else []),
            html.Table([html.Thead(head), html.Tbody(body)], className="small-table"),
            html.Ul(moves, className="moves"),
        ],
        className="difference",
        tabIndex=0,
    )
