"""The header: which model, how the solve stands, theme, link and the menu of formats."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from explorer.exports.formats import FORMATS, Format
from explorer.view.lessons.lesson import Lesson
from explorer.web.contract import ids
from explorer.web.layout.lesson_strip import lessons_menu


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


def header(lessons: Sequence[Lesson] = ()) -> Component:
    return html.Header(
        [
            html.H1(
                [html.Span(className="mark", **{"aria-hidden": "true"}), html.Span("Placement Explorer")],
                className="logo",
            ),
            html.Div(id=ids.CHIP, className="chip"),
            html.Div(id=ids.ASSUMED, className="assumed", role="group", **{"aria-label": "What is assumed"}),
            html.Div(className="spring"),
            html.Div(
                [
                    html.I(className="dot"),
                    html.Div([html.B("connecting", className="what"), html.Span("", className="more")]),
                ],
                id=ids.STATUS,
                className="status",
                **{"data-state": "connecting"},
            ),
            html.Span(id=ids.SAME_PLAN, className="tag", hidden=True),
            html.Div(id=ids.ANNOUNCER, className="sr", role="status", **{"aria-live": "polite"}),
            html.Div(
                [_step(ids.UNDO, "↶", "Undo the last change"), _step(ids.REDO, "↷", "Redo it")], className="steps"
            ),
            *([lessons_menu(lessons)] if lessons else []),
            export_menu(),
            html.Button("Copy link", id=ids.SHARE, className="button", n_clicks=0),
            html.Button(
                html.Span(className="moon", **{"aria-hidden": "true"}),
                id=ids.THEME,
                className="button square",
                n_clicks=0,
                **{"aria-label": "Switch between light and dark theme"},
            ),
            html.Button("?", id=ids.GUIDE_OPEN, className="button square", **{"aria-label": "Help: keys and words"}),
        ],
        className="header",
    )


def _step(id_: str, sign: str, what: str) -> Component:
    """A way through the history of changes."""
    return html.Button(sign, id=id_, className="button square", disabled=True, **{"aria-label": what})
