"""The right rail: why the plan is what it is, and what is selected."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.web.contract import ids


def right_rail() -> Component:
    return html.Aside(
        [
            html.Div([html.H2("Why this plan"), html.P("There is no plan yet.", className="small quiet")], id=ids.WHY),
            html.Div(id=ids.DEGREES),
            html.Div(id=ids.BESIDE),
            html.Div(id=ids.HELP),
            html.Div(
                [
                    html.H2("Search"),
                    html.Div(className="plot"),
                    html.P(className="small quiet search-words"),
                ],
                id=ids.SEARCH_MINI,
            ),
            html.Div(id=ids.INSPECTOR),
        ],
        className="rail right",
        tabIndex=0,
        **{"aria-label": "Why this plan, and the selection"},
    )
