"""Plans that were kept, side by side, and how one differs from the baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from explorer.words import text

HINT = "Keeps the plan on the page in this table, to go back to it and to compare it with others."
SHOWN_MOVES = 60
SAME = 0.002


def scenarios(
    rows: Sequence[Mapping[str, Any]], told: Mapping[str, Any] | None, names: tuple[str, str], words: str
) -> list[Component]:
    """told: how the second of ``names`` differs from the first, see `explorer.reviews.difference.difference_object`."""
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
            [html.Div(_table(rows), className="table-wrap", tabIndex=0), _difference(told, names)],
            className="scenario-split" if told else "scenario-whole",
        ),
    ]


def _table(rows: Sequence[Mapping[str, Any]]) -> Component:
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


def _row(row: Mapping[str, Any], figures: Sequence[str]) -> Component:
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
    change = "baseline" if row["baseline"] else _change(against)
    tone = "" if against is None or abs(against) < SAME else "good" if against > 0 else "bad"
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
            html.Td(change, className=f"n {tone}".strip()),
            *(html.Td(row["cells"].get(name, text.NOTHING), className="n") for name in figures),
        ],
        **({"aria-current": "true"} if row["baseline"] else {}),
    )


def _change(share: float | None) -> str:
    if share is None:
        return ""
    if abs(share) < SAME:
        return "as fast"
    return f"{'+' if share > 0 else '−'}{text.percent(abs(share))}"


def _button(words: str, act: str, number: str, what: str) -> Component:
    label = {} if act == "forget" else {"aria-label": f"{words}: {what}"}
    return html.Button(words, className="tool", title=what, **{"data-act": act, "data-arg": number, **label})


def _difference(told: Mapping[str, Any] | None, names: tuple[str, str]) -> Component | None:
    if told is None:
        return None
    title = html.H2(f"{text.short(names[1], 30)} against {text.short(names[0], 30)}")
    if told["same_plan"]:
        return html.Section([title, html.P("The same plan: question and answer are equal.")], className="difference")
    moved = told["moved_operators"]
    lead = f"{text.count(moved)} of {text.plural(told['operators'], 'operator')} moved; bright in the graph."
    numbers = [
        html.Tr(
            [html.Td(one["what"]), html.Td(_told(one["first"], one["unit"]), className="n"),
             html.Td(_told(one["second"], one["unit"]), className="n")]
        )
        for one in told["numbers"]
    ]  # fmt: skip
    counts = [
        html.Tr([html.Td(what), *(html.Td(shown, className="n") for shown in pair)])
        for what, pair in (
            ("micro-batches", ["–".join(map(str, sorted({min(c), max(c)}))) for c in told["micro_batches"]]),
            ("stages", [str(count) for count in told["stages"]]),
        )
        if pair[0] != pair[1]
    ]
    devices = [
        html.Tr(
            [html.Td(f"peak memory, {one['second'] or one['first']}"),
             *(html.Td(_told(peak, "bytes"), className="n") for peak in one["peak_bytes"])]
        )
        for one in told["devices"]
    ]  # fmt: skip
    moves = [
        html.Li(
            [html.B(one["module"] or "(no module)"), f" {one['from']} → {one['to']} · {one['operators']} operators"]
        )
        for one in told["moved"][:SHOWN_MOVES]
    ]
    head = html.Tr([html.Th(""), html.Th("Baseline", className="n"), html.Th("This", className="n")])
    asked = [html.P("Asked otherwise: " + "; ".join(told["questions_differ"]) + ".", className="small quiet")]
    return html.Section(
        [
            title,
            html.P(lead),
            *(asked if told["questions_differ"] else []),
            html.Table([html.Thead(head), html.Tbody([*counts, *numbers, *devices])], className="small-table"),
            html.Ul(moves, className="moves"),
        ],
        className="difference",
        tabIndex=0,
    )


def _moved(one: Mapping[str, Any]) -> str:
    return f" {one['from']} → {one['to']} · {one['operators']} of {one['of']}"


def _told(value: float | None, unit: str) -> str:
    if value is None:
        return text.NOTHING
    if unit == "s":
        return text.seconds(value)
    if unit == "bytes":
        return text.nbytes(value)
    return text.percent(value) if unit == "share" else f"{text.digits(value)} /s"
