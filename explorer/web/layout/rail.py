"""The pieces that the left rail is made of: titled sections of labelled controls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dash import html
from dash.development.base_component import Component

from explorer.web.layout.fields import NumberField, Segments, Select, Slider, Switch
from explorer.words.glossary import TERMS

AUTO = "auto"
PAUSE_MS = 350
"""After what pause in writing a number counts."""


def section(title: str, children: list[Component]) -> Component:
    return html.Section([html.H2(title), *children], className="set")


def row(label: str, control: Component, term: str) -> Component:
    return told(html.Div([html.Span(label, className="label"), control], className="spread"), term)


def told(part: Component, term: str) -> Component:
    """A part that says what it means (a key of `glossary.TERMS`) where it is pointed at or reached by keyboard."""
    assert term in TERMS, term
    setattr(part, "data-term", term)
    return part


def switch(id_: str, label: str, checked: bool, term: str) -> Component:
    return told(html.Div(Switch(children=label, id=id_, checked=checked)), term)


def segments(id_: str, value: str, labels: Mapping[str, str], term: str, what: str = "") -> Component:
    """A few choices side by side; what: its name for those who do not see the label above it."""
    control = Segments(id=id_, data=_choices(labels), value=value, **({"aria-label": what} if what else {}))
    return told(html.Div(control), term)


def select(id_: str, value: str, labels: Mapping[str, str], what: str, width: int | None = None) -> Component:
    return Select(
        id=id_,
        data=_choices(labels),
        value=value,
        **({} if width is None else {"width": width}),
        **{"aria-label": what},
    )


def number(
    id_: str,
    what: str,
    value: float | None,
    width: int,
    whole: bool = False,
    placeholder: str = AUTO,
    least: float = 1,
) -> Component:
    return NumberField(
        id=id_,
        value="" if value is None else value,
        min=least,
        whole=whole,
        placeholder=placeholder,
        width=width,
        pause_ms=PAUSE_MS,
        **{"aria-label": what},
    )


def short_select(id_: str, value: str, labels: Mapping[str, str], what: str, width: int = 82) -> Component:
    """A select that needs no label of its own; a value that is not among the usual ones is added."""
    return select(id_, value, {**labels, value: labels.get(value, value)}, what, width)


def slider(label: str, shown: Component, term: str, **props: Any) -> Component:
    """shown: its value, as text or as a field."""
    control = Slider(**props, **{"aria-label": label})
    return told(html.Div([html.Div([html.Span(label, className="label"), shown], className="spread"), control]), term)


def _choices(labels: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"value": key, "label": label} for key, label in labels.items()]
