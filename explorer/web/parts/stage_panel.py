"""What stands around the stage view and the schedule: legend and tables."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.view.plan_types import PlanView
from explorer.view.timeline import phases
from explorer.view.timeline.sentence import legend_kinds
from explorer.words import text

PHASE_HINTS = {
    "warm-up": "Until a row's first backward begins",
    "steady": "From a row's first backward to the end of its last forward",
    "drain": "After a row's last forward",
}


def legend(plan: PlanView) -> list[Component]:
    """The kinds of bars that there are, and the phases with their share of the device time."""
    kinds = [
        html.Span([html.I(className=f"key {name}"), words], className="legend") for name, words in legend_kinds(plan)
    ]
    shares = phases.summary(plan)
    if not shares:
        return [html.Div(kinds, className="kinds")]
    parts = [
        html.Span(
            [
                html.I(className=f"key phase {phase['name']}"),
                html.Span(
                    [f"{phase['name']} ", html.B(text.percent(round(phase["share"], 2))), html.Em(f", {idle} % idle")]
                ),
            ],
            className="legend",
            title=f"{PHASE_HINTS[phase['name']]}: {phase['text']} of the devices' time, {phase['idle_text']} idle",
        )
        for phase, idle in zip(shares, text.percents([phase["idle"] for phase in shares])[:-1], strict=True)
    ]
    bubble = html.Span(
        html.Span(["bubble ", html.B(text.percent(plan["metrics"]["bubble"]))]),
        className="legend bubble",
        title="Share of the devices' time that is idle, over the three phases",
    )
    return [html.Div(parts, className="kinds"), html.Div([*kinds, bubble], className="kinds")]
