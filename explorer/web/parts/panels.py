"""Views as Dash components: key figures, why panel, tables, inspector, banners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dash import html
from dash.development.base_component import Component

from explorer.view.cards import Card, cards
from explorer.view.events import ResultEvent
from explorer.view.figures import Figures
from explorer.view.graph.course import course, members
from explorer.view.graph.inspect import Facts
from explorer.view.no_plan import no_plan_words
from explorer.view.plan_types import PlanView, Skeleton
from explorer.view.timeline import charts, why
from explorer.view.timeline.order import order_words
from explorer.view.timeline.why import Heavy, Part
from explorer.web.contract.terms import KEYS
from explorer.words import text
from solvers.problem.problem import Pipeline

if TYPE_CHECKING:
    from explorer.jobs.answers import WayOut


def kpis(plan: PlanView, before: Figures | None, measured_s: float | None = None) -> list[Component]:
    """See `explorer.view.cards.cards`."""
    return [_kpi(card) for card in cards(plan, before, measured_s)]


def _kpi(card: Card) -> Component:
    change = html.I(card.change, className=f"change {card.tone}".strip()) if card.change else None
    return html.Div(
        [
            html.Span(card.name),
            html.Div([html.B(card.value), change], className="value"),
            html.Em(card.note or "\u00a0", className=card.note_tone),
        ],
        className="kpi",
        **{"data-term": KEYS[card.name]},
    )


def chip(skeleton: Skeleton, costs_from: str | None = None) -> list[str | Component]:
    """costs_from: of the plan on the page, if not the model's own."""
    parameters = skeleton["parameters"]
    name = skeleton["reference"].rsplit("/", 1)[-1]
    facts: list[str | Component] = [text.plural(skeleton["operators"], "operator")]
    if parameters:
        facts.append(f" · {text.large(parameters)} parameters")
    costs = costs_from or skeleton["costs_from"]
    short = "estimated" if costs.startswith("roofline") else costs.split(" on ")[0]
    facts.append(html.Span([" · costs ", html.B(short, title=costs)], className="wide"))
    between = html.Span(" · ", className="between")  # hidden where the facts stand below the name
    return [html.B(name, title=skeleton["reference"], className="name"), between, html.Span(facts, className="facts")]


def why_panel(plan: PlanView) -> list[Component]:
    explained = why.explain(plan)
    bound = explained["bound_share"]
    return [
        html.H2("Why this plan"),
        html.P(explained["headline"].replace(" %", "\u00a0%")),
        html.Div(
            [html.I(className=_part(p), style={"flexGrow": p["share"]}) for p in explained["parts"] if p["share"]],
            className="stack",
            **{"aria-hidden": "true"},
        ),
        html.Ul(
            [html.Li([html.I(className=_part(p)), p["name"], html.B(p["text"])]) for p in explained["parts"]],
            className="parts",
        ),
        html.Div(explained["binding"].replace(" %", "\u00a0%"), className="bind"),
        *_order(plan),
        *_heaviest(explained["heaviest"]),
        html.H2("Proved"),
        html.Div(
            [
                html.I(className="track"),
                html.I(className="fill", style={"width": f"{bound * 94:.2f}%"}),
                html.I(className="at bound", style={"left": f"{bound * 94:.2f}%"}),
                html.I(className="at plan", style={"left": "94%"}),
            ],
            className="gauge",
            **{"aria-hidden": "true"},
        ),
        html.Div(
            [html.Span(f"bound {explained['bound']}"), html.Span(f"plan {explained['objective']}")],
            className="spread small",
        ),
        html.P(explained["proof"], className="small quiet"),
        *[html.P(note, className="small quiet") for note in explained["notes"]],
    ]


def _part(part: Part) -> str:
    """The class of a part's swatch: a device's colour, or a grey."""
    device = part.get("device", -1)
    return f"part s{device % 64}" if device >= 0 else f"part {part['key']}"


def _order(plan: PlanView) -> list[Component]:
    """The order of micro-batches beside another, and a button that plans with that."""
    words, other = order_words(plan)
    if not words:
        return []
    label = "Plan with 1F1B" if other is Pipeline.ONE_F_ONE_B else "Plan with the best order"
    button = {"data-act": "set", "data-arg": f"pipeline={other.value}"} if other is not None else {}
    go = html.Button(label, className="tool", **button) if button else None
    return [html.P([words.replace(" %", "\u00a0%") + " ", go], className="order small")]


def _heaviest(rows: Sequence[Heavy]) -> list[Component]:
    """The longest spans of the critical path; a click shows where they are."""
    if not rows:
        return []
    items = [
        html.Button(
            [html.Span(row["name"]), html.B(row["text"])],
            className="heavy",
            title=f"{row['name']}: show it in the schedule and in the graph",
            **{"data-reveal": str(row["operator"]), "data-from": str(row["start_s"]), "data-to": str(row["end_s"])},
        )
        for row in rows
    ]
    return [html.H3("Longest on the path"), html.Div(items, className="heaviest")]


def inspector(facts: Facts | None) -> list[Component]:
    if facts is None:
        return [
            html.H2("Selected"),
            html.P("Hover or click a box, a bar or a device to see where it runs.", className="small quiet"),
        ]
    actions = [
        html.Button(label, className="tool", **{"data-act": act, "data-arg": arg}) for act, arg, label in facts.actions
    ]
    return [
        html.H2("Selected"),
        html.Div([html.B(facts.title, title=facts.title), *[_tag(d) for d in facts.tags]], className="picked"),
        html.Dl([part for key, value in facts.rows for part in (html.Dt(key), html.Dd(value))]),
        html.Div(actions, className="actions") if actions else None,
    ]


def _tag(label: str) -> Component:
    return html.Span(label, className="tag")


def device_table(plan: PlanView) -> list[Component]:
    """What devices do with their time and memory and, where there are several links, what those carry."""
    columns = [
        ("name", "Device"),
        ("kind", "Kind"),
        *([] if plan["by_operator"] else [("stages", "Stages")]),
        ("operators", "Operators"),
        ("busy", "Busy"),
        ("compute", "Compute"),
        ("load", "Load per sample"),
        ("parameters", "Static memory"),
        ("peak", "Peak memory"),
        ("of_cap", "Of cap"),
    ]
    devices = table(columns, charts.device_rows(plan), "Devices", text_columns=2)
    if not plan["links"]:
        return [devices]
    columns = [("name", "Link"), ("transfers", "Transfers"), ("bytes", "Bytes"), ("busy", "Busy"), ("time", "Time")]
    return [devices, table(columns, charts.link_rows(plan), "Links", text_columns=1)]


def table(
    columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, object]], caption: str, text_columns: int = 1
) -> Component:
    sides = ["" if i < text_columns else "n" for i in range(len(columns))]
    head = [html.Th(title, scope="col", className=side) for (_, title), side in zip(columns, sides, strict=True)]
    body = []
    for row in rows:
        cells = [html.Td(row[key], className=side) for (key, _), side in zip(columns, sides, strict=True)]
        if isinstance(device := row.get("device"), int):
            cells[0].children = [html.I(className=f"swatch s{device % 64}"), row[columns[0][0]]]
        if isinstance(pick := row.get("pick"), tuple):
            kind, which = pick
            button = html.Button(row[columns[0][0]], className="row-link", **{"data-pick": kind, "data-arg": which})
            cells[0].children = button
        body.append(html.Tr(cells))
    return html.Table([html.Caption(caption, className="sr"), html.Thead(html.Tr(head)), html.Tbody(body)])


def no_plan(event: ResultEvent, ways: Sequence[WayOut] = (), words: str = "") -> list[Component]:
    """The banner when there is no plan: why, what is too large, and remedies. ways: changes under which a plan was
    found, see `explorer.sweeps.remedies.Remedy.as_object`. words: how the look for more stands."""
    banner = no_plan_words(event)
    parts: list[Component] = [html.B(banner["title"]), *map(html.Span, banner["lines"])]
    if banner["cap"]:
        button = {"data-act": "cap", "data-arg": str(banner["cap"]["bytes"])}
        parts.append(html.Button(banner["cap"]["words"], className="tool", **button))
    if ways:
        parts.append(html.Ul([_way_out(way, place) for place, way in enumerate(ways)], className="helps ways"))
    if words:
        parts.append(html.Span(words, className="small quiet"))
    return parts


def _way_out(way: WayOut, place: int) -> Component:
    took, held = text.seconds(way["objective_s"]), f"{text.nbytes(way['peak_memory_bytes'])} at most"
    go = html.Button(
        "Go",
        className="tool strong",
        title="Set this, and search with the page's own effort",
        **{"data-act": "go-way", "data-arg": str(place), "aria-label": f"Go to: {way['change']}, {took}"},
    )
    return html.Li([html.Span(way["change"]), html.Span(held, className="none"), html.B(took), go])


def failure(message: str) -> list[Component]:
    """The banner when a solve could not even begin, or broke."""
    return [html.B("This could not be solved."), html.Span(message)]


def planned_again(why: str) -> list[Component]:
    """The banner when a question is asked a second time."""
    return [html.B("The question is asked again."), html.Span(why)]


def cut_off(why: str) -> list[Component]:
    """The banner when a search was cancelled before it was done, and its best plan is shown."""
    return [html.B("The search was cut off; its best plan so far is kept."), html.Span(why)]


def refused(words: str) -> list[Component]:
    """The banner when a file is not taken."""
    return [html.B("This file was not opened; nothing was changed."), html.Span(words)]


def log_lines(plan: PlanView) -> list[Component]:
    """The steps of the search at which something changed, newest first: when, which planner was at work, what."""
    lines = []
    for step in reversed(course(plan["trace"])):
        words = f"plan {step['objective']}, bound {step['bound']}"
        by = html.Span(step["by"] or plan["planner"], className="by")
        lines.append(html.Li([html.B(text.seconds(step["elapsed_s"])), by, html.Span(step["note"] or words)]))
    return lines


def by_planner(plan: PlanView) -> list[Component]:
    """Which planner found what: those at work in the search, the one that found the answer first."""
    rows = members(plan["trace"])
    if not any(row["by"] for row in rows):
        return []
    shown = [{**row, "by": row["by"] or plan["planner"]} for row in rows]
    columns = [
        ("by", "Planner"),
        ("plans", "Plans"),
        ("best", "Best"),
        ("at", "After"),
        ("bounds", "Bound"),
    ]
    return [table(columns, shown, "Who found what")]
