"""The menu of formats that the plan on the page can be taken away in."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from explorer.exports.format import Format
from explorer.exports.formats import FORMATS
from explorer.web.contract import ids


def export_menu() -> Component:
    return html.Details(
        [
            html.Summary("Export", title="Take the plan away as a file"),
            html.Div(
                [
                    html.Div("There is no plan yet.", id=ids.EXPORT_NOTE, className="note small quiet", role="status"),
                    *(_item(one) for one in FORMATS.values() if not one.launches),
                    html.H2("For launchers"),
                    *(_item(one) for one in FORMATS.values() if one.launches),
                ],
                className="menu",
                role="group",
                **{"aria-label": "Formats"},
            ),
        ],
        id=ids.EXPORT,
        className="export",
    )


def _item(one: Format) -> Component:
    return html.Button(
        [html.B(one.name), html.Span(one.what), html.Code(one.ending)],
        disabled=True,
        **{"data-act": "export", "data-arg": one.name},
    )
