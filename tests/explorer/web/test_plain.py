"""Which parts of the page are Dash's components, and which are HTML of the same look."""

from __future__ import annotations

import pytest

pytest.importorskip("dash", reason="the extra [app] is not installed")

from dash import Dash, Input, Output, State, html

from explorer.web.layout.fields import Switch
from explorer.web.layout.plain import Plain, called_back, markup, with_plain


def test_markup_is_what_dash_would_draw_with_text_as_text() -> None:
    part = html.Div(
        [
            "a < b",
            html.Button("x", id="i", className="tool", hidden=True, disabled=False, tabIndex=-1, n_clicks=0),
            None,
            3,
        ],
        title='say "no"',
        **{"aria-hidden": "true", "data-on": False},
    )
    assert markup(part) == (
        '<div aria-hidden="true" data-on="false" title="say &quot;no&quot;">a &lt; b'
        '<button class="tool" hidden id="i" tabindex="-1">x</button>3</div>'
    )
    assert markup(html.P(["one", html.Br(), "two"])) == "<p>one<br>two</p>"


def test_a_part_is_plain_unless_a_control_or_a_callback_is_in_it() -> None:
    page = html.Main(
        [
            html.Div([html.Span("a"), html.Div(id="told")]),
            html.Div([html.Div(html.B("b"), id="heard"), html.I()]),
            html.Div(Switch(id="switch")),
        ]
    )
    first, second, third = with_plain(page, {"heard"}).children
    assert isinstance(first, Plain)
    assert first.html == '<span>a</span><div id="told"></div>'
    assert [type(part) for part in second.children] == [html.Div, Plain]
    assert second.children[0].id == "heard"
    assert isinstance(second.children[0].children, Plain)
    assert isinstance(third.children, Switch)


def test_what_has_a_style_of_its_own_is_left_to_dash() -> None:
    assert isinstance(with_plain(html.Div(html.I(style={"width": 3})), set()), html.Div)


def test_callbacks_name_the_ids_that_they_hear_tell_and_read() -> None:
    app = Dash("small")
    app.clientside_callback("f", Output("a", "x"), Output("b", "x"), Input("c", "x"), State("d", "x"))
    app.clientside_callback("g", Input("e", "x"))
    assert called_back(app) == {"a", "b", "c", "d", "e"}
