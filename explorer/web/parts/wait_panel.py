"""What an idle device waits for, as Dash components: the chain backwards in time, down to what started it."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.view.instants.waits import WaitStep, WaitView
from explorer.words import text

FIRST = 6
"""Steps of a chain that are in sight at once."""
MOST = 200
"""Steps of a chain in the panel; a line through the schedule shows all."""


def waits(wait: WaitView) -> list[Component]:
    """wait: see `explorer.view.instants.waits.wait_view`."""
    steps = wait["steps"]
    rest = steps[FIRST:MOST]
    more = len(steps) - FIRST - len(rest)
    return [
        html.H2("Waits"),
        html.Div(
            [html.I(className=f"swatch s{wait['device'] % 64}", **{"aria-hidden": "true"}), html.B(wait["title"])],
            className="picked",
        ),
        html.P(wait["when"], className="small quiet"),
        html.P("Backwards in time, each let the one above begin:", className="small quiet wait-head"),
        html.Ol([_step(step) for step in steps[:FIRST]], className="wait-steps"),
        *(
            [
                html.Details(
                    [
                        html.Summary(f"{text.plural(len(steps) - FIRST, 'step')} before"),
                        html.Ol(
                            [_step(step) for step in rest]
                            + ([html.Li(f"and {more:,} more, in the schedule", className="quiet")] if more > 0 else []),
                            className="wait-steps",
                        ),
                    ],
                    className="more wait-more",
                )
            ]
            if rest
            else []
        ),
        html.P(wait["started"], className="small wait-start"),
    ]


def _step(step: WaitStep) -> Component:
    mark = html.I(className=f"swatch s{step['device'] % 64} {step['kind']}", **{"aria-hidden": "true"})
    note = [html.Span(step["note"], className="quiet")] if step["note"] else []
    return html.Li([mark, html.Span([html.Span(step["words"]), *note]), html.B(text.seconds(step["seconds"]))])
