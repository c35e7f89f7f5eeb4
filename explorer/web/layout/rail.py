"""The pieces that the left rail is made of: titled sections of labelled controls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from explorer.words.glossary import TERMS

AUTO = "auto"


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
    control = dmc.Switch(id=id_, label=label, labelPosition="left", checked=checked, size="xs", className="spread")
    return told(html.Div(control), term)


def segments(id_: str, value: str, labels: Mapping[str, str], term: str, what: str = "") -> Component:
    """A few choices side by side; what: its name for those who do not see the label above it."""
    control = dmc.SegmentedControl(
        id=id_,
        data=[{"value": key, "label": label} for key, label in labels.items()],
        value=value,
        size="xs",
        fullWidth=True,
        className="dense",
        **({"aria-label": what} if what else {}),
    )
    return told(html.Div(control), term)


def select(id_: str, value: str, labels: Mapping[str, str], what: str, width: int | None = None) -> Component:
    return dmc.Select(
        id=id_,
        data=[{"value": key, "label": label} for key, label in labels.items()],
        value=value,
        allowDeselect=False,
        size="xs",
        checkIconPosition="right",
        **({} if width is None else {"w": width, "withCheckIcon": False}),
        **{"aria-label": what},
    )


def number(
    id_: str,
    what: str,
    value: float | None,
    width: int,
    whole: bool = False,
    suffix: str = "",
    placeholder: str = AUTO,
    least: float = 1,
) -> Component:
    return dmc.NumberInput(
        id=id_,
        value="" if value is None else value,
        min=least,
        allowDecimal=not whole,
        allowNegative=False,
        placeholder=placeholder,
        suffix=suffix,
        size="xs",
        w=width,
        hideControls=True,
        debounce=350,
        **{"aria-label": what},
    )


def short_select(id_: str, value: str, labels: Mapping[str, str], what: str, width: int = 82) -> Component:
    """A select that needs no label of its own; a value that is not among the usual ones is added."""
    told = {**labels, value: labels.get(value, value)}
    return dmc.Select(
        id=id_,
        data=[{"value": key, "label": label} for key, label in told.items()],
        value=value,
        allowDeselect=False,
        size="xs",
        w=width,
        withCheckIcon=False,
        **{"aria-label": what},
    )


def slider(label: str, shown: Component, term: str, **props: Any) -> Component:
    """shown: its value, as text or as a field."""
    control = dmc.Slider(
        label=None, size=4, thumbSize=14, updatemode="drag", thumbLabel=label, className="slider", **props
    )
    return told(html.Div([html.Div([html.Span(label, className="label"), shown], className="spread"), control]), term)
