"""What would help most, as Dash components: single changes, each solved, the best first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dash import html
from dash.development.base_component import Component

from explorer.web.state.page_state import Changes
from explorer.words import text

if TYPE_CHECKING:
    from explorer.jobs.answers import ChangeAnswer

SAME = 0.002
"""Gains below are none to people."""
NO_GAIN = -9.0
"""Of a change without a plan, which stands last."""


def helps(changes: Changes, words: str = "") -> list[Component]:
    """What came of single changes so far. words: in place of the usual ones."""
    rows, of, going = changes.answers, changes.of, bool(changes.turn)
    head: list[Component] = [html.H2("What would help most")]
    if not rows and not going:
        button = html.Button("Try single changes", className="tool", **{"data-act": "help"})
        note = words or "More GPUs, memory, faster links, other micro-batches: each is solved, not guessed."
        return [*head, html.P(note, className="small quiet"), html.Div(button, className="actions")]
    gains = [NO_GAIN if (gain := row["gain"]) is None else gain for row in rows]
    order = sorted(range(len(rows)), key=lambda i: -gains[i])
    listed = html.Ul([_row(rows[i], i) for i in order], className="helps")
    if not going:
        note = words or "Throughput against this plan; quick searches that begin with it. Go shows the plan found."
        return [*head, listed, html.P(note, className="small quiet")]
    at = words or (f"Solving {min(len(rows) + 1, of)} of {of} …" if of else "Solving …")
    stop = html.Button("Stop", className="tool", **{"data-act": "stop-help"})
    return [*head, listed, html.Div([html.Span(at, className="small quiet"), stop], className="spread")]


def _row(row: ChangeAnswer, place: int) -> Component:
    gain = row["gain"]
    if gain is None:
        return html.Li([row["words"], html.Span("no plan", className="none", title=row["reason"]), None])
    change = "no change" if abs(gain) < SAME else text.signed(gain)
    go = html.Button(
        "Go",
        className="tool",
        title="Show the plan that was found for this",
        **{"data-act": "go-help", "data-arg": str(place), "aria-label": f"Go to: {row['words']}, {change}"},
    )
    tone = "good" if gain > SAME else "none"
    return html.Li([html.Span(row["words"]), html.B(change, className=tone), go])
