"""The schedule as time goes on: its controls, and the line that stands at an instant. assets/time/ moves both."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.web.contract import ids

STEPS = 1000
"""Of the slider, over the whole schedule."""


def clock() -> Component:
    """Play, steps from event to event, where it is, and what goes on there."""
    return html.Div(
        [
            _button("◂", ids.CLOCK_BACK, "To the event before (comma)"),
            _button("▶", ids.CLOCK_PLAY, "Play the schedule (space)"),
            _button("▸", ids.CLOCK_ON, "To the next event (full stop)"),
            html.Div(
                html.Div(className="knob"),
                id=ids.CLOCK_AT,
                className="clock-at",
                role="slider",
                tabIndex=0,
                **{
                    "aria-label": "Instant of the schedule",
                    "aria-valuemin": "0",
                    "aria-valuemax": str(STEPS),
                    "aria-valuenow": "0",
                    "aria-valuetext": "stopped",
                },
            ),
            html.Span(id=ids.CLOCK_TIME, className="clock-time"),
            html.Span(id=ids.CLOCK_WORDS, className="quiet clock-words"),
            _button("1×", ids.CLOCK_SPEED, "Speed: the whole in 15 s, or half or twice as fast"),
            _button("Waits", ids.CLOCK_WAITS, "What an idle device waits for at this instant (w)", disabled=True),
            html.Span(id=ids.CLOCK_SAYS, className="sr", role="status", **{"aria-live": "polite"}),
        ],
        id=ids.CLOCK,
        className="clock",
        role="group",
        **{"aria-label": "Time"},
    )


def cursor() -> Component:
    """Over the schedule; moved by its transform only."""
    parts = [html.Div(className=name) for name in ("grip", "rule", "readings")]
    line = html.Div(parts, className="line")
    return html.Div(
        [html.Div(className="axis-press"), line], id=ids.CURSOR, className="cursor", hidden=True,
        **{"aria-hidden": "true"},
    )  # fmt: skip


def _button(label: str, id_: str, what: str, disabled: bool = False) -> Component:
    named = {} if label[0].isalnum() else {"aria-label": what}
    return html.Button(label, id=id_, className="tool", title=what, disabled=disabled, **named)
