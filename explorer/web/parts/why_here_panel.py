"""Why something is where it is, as Dash components: what it would cost at each other place, or what forbids that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dash import html
from dash.development.base_component import Component

from explorer.web.state.page_state import Elsewhere
from explorer.words import text

if TYPE_CHECKING:
    from explorer.sweeps.why_here import MoveRow

SAME_S = 1e-12
"""Changes below are none."""


def offer() -> Component:
    """Before anybody asked."""
    button = html.Button("What if it were elsewhere?", className="tool", **{"data-act": "why-here"})
    return _box([html.Div(button, className="actions")])


def why_here(elsewhere: Elsewhere) -> Component:
    """What it would cost at each other place, as far as that is known."""
    rows, of = elsewhere.answers, elsewhere.of
    order = sorted(rows, key=lambda row: (row["delta_s"] is None, row["delta_s"] or 0.0, row["device"]))
    parts = html.Div(
        [
            html.Ul([_row(row) for row in order if not row["edge"]], className="places"),
            *_edges([row for row in rows if row["edge"]]),
        ]
    )
    if elsewhere.turn:
        at = f"Trying {min(len(rows) + 1, of)} of {of} places …" if of else "Trying …"
        stop = html.Button("Stop", className="tool", **{"data-act": "stop-why-here"})
        return _box([parts, html.Div([html.Span(at, className="small quiet"), stop], className="spread")])
    with_it = f" {text.plural(elsewhere.along, 'operator')} must come along." if elsewhere.along else ""
    note = elsewhere.words or f"Each plan was evaluated, with nothing else moved.{with_it}"
    return _box([parts, html.P(note, className="small quiet")])


def _edges(rows: Sequence[MoveRow]) -> list[Component]:
    """What moving the edges of the stage costs."""
    if not rows:
        return []
    return [html.H3("If the stage's edge moved"), html.Ul([_row(row) for row in rows], className="places edges")]


def spoken(rows: Sequence[MoveRow], words: str = "") -> str:
    """The answer for those who hear the page."""
    if words:
        return words
    rows = [row for row in rows if not row["edge"]]
    allowed = [row for row in rows if row["delta_s"] is not None and not row["here"]]
    least = min(allowed, key=lambda row: row["delta_s"] or 0.0, default=None)
    forbidden = sum(row["delta_s"] is None for row in rows)
    best = f"best elsewhere: {least['name']}, {least['delta']}" if least else "nowhere else is allowed"
    return f"Why here: {best}" + (f"; {text.plural(forbidden, 'place')} not allowed" if least and forbidden else "")


def _box(children: Sequence[Component]) -> Component:
    return html.Div([html.H2("Why here"), *children], className="why-here")


def _row(row: MoveRow) -> Component:
    delta = row["delta_s"]
    tone = "none" if delta is None or row["here"] else "good" if delta < -SAME_S else ""
    reason = re.sub(r"(?<=\d) (?=[nµm]?s\b|[KMGT]?i?B\b)", "\u00a0", row["reason"] or "; ".join(row["changes"]))
    return html.Li(
        [
            html.I(className=f"swatch s{row['device'] % 64}", **{"aria-hidden": "true"}),
            html.Span(row["name"]),
            html.B(row["delta"], className=tone),
            html.P(reason) if reason else None,
        ]
    )
