"""The pieces that the left rail is made of: titled sections of labelled controls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

AUTO = "auto"


def section(title: str, children: list[Component]) -> Component:
    return html.Section([html.H2(title), *children], className="set")


def row(label: str, control: Component, hint: str = "") -> Component:
    """hint: what it means, where the label alone does not say so; shown to pointer and keyboard."""
    named = html.Span(label, className="label")
    return html.Div([hinted(named, hint) if hint else named, control], className="spread")


def hinted(label: Component, hint: str) -> Component:
    """A label that tells more when it is pointed at or reached by keyboard."""
    label.className = f"{label.className or ''} told".strip()
    label.tabIndex = 0
    return dmc.Tooltip(
        label,
        label=hint,
        multiline=True,
        w=236,
        withArrow=True,
        position="right",
        events={"hover": True, "focus": True, "touch": True},
        openDelay=120,
        zIndex=400,
    )


def switch(id_: str, label: str, checked: bool) -> Component:
    return dmc.Switch(id=id_, label=label, labelPosition="left", checked=checked, size="xs", className="spread")


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


def short_select(id_: str, value: str, labels: Mapping[str, str], what: str) -> Component:
    """A select that needs no label of its own; a value that is not among the usual ones is added."""
    told = {**labels, value: labels.get(value, value)}
    return dmc.Select(
        id=id_,
        data=[{"value": key, "label": label} for key, label in told.items()],
        value=value,
        allowDeselect=False,
        size="xs",
        w=82,
        withCheckIcon=False,
        **{"aria-label": what},
    )


def slider(label: str, shown: Component, **props: Any) -> Component:
    """shown: its value, as text or as a field."""
    return html.Div(
        [
            html.Div([html.Span(label, className="label"), shown], className="spread"),
            dmc.Slider(
                label=None, size=4, thumbSize=14, updatemode="drag", thumbLabel=label, className="slider", **props
            ),
        ]
    )
