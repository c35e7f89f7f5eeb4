"""What a search found beside its answer: nearly as fast, in less memory."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.view.plan_types import Lean, PlanView
from explorer.words import text


def beside(plan: PlanView, shown: int | None, words: str = "") -> list[Component]:
    """plan: the answer's view, with its front. shown: the position of the plan on the page, None for the answer."""
    rows = [_row("The answer", "", "answer", shown is None)]
    rows += [_row(*trade_off(one), str(i), shown == i) for i, one in enumerate(plan["front"])]
    note = html.P(words, className="small bad") if words else None
    return [html.H2("Nearly as fast, in less memory"), html.Ul(rows, className="beside"), note]


def trade_off(one: Lean) -> tuple[str, str]:
    """ "0.1 % slower", "2.9 GiB less on GPU 0"."""
    slower = f"{text.percent(one['slower'])} slower" if one["slower"] > 5e-5 else "as fast"
    return slower, f"{text.nbytes(one['less_bytes'])} less on {one['device']}"


def _row(what: str, more: str, which: str, shown: bool) -> Component:
    button = html.Button(
        "Show",
        className="tool",
        **{"data-act": "show-lean", "data-arg": which, "aria-label": f"Show: {what} {more}".strip()},
    )
    words = html.Span([html.B(what), html.Span(more, className="quiet")] if more else html.B(what))
    return html.Li([words, html.Span("shown", className="tag") if shown else button])
