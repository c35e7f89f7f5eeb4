"""The pieces that the left rail is made of: titled sections of labelled controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from explorer.question.settings import SETTINGS, SearchSettings, declared
from explorer.question.written.declaring import NUMBER, SEGMENTS, SWITCH, Control
from explorer.view.session import Session
from explorer.web.contract.terms import TERMS
from explorer.web.layout.fields import NumberField, Segments, Select, Slider, Switch

SEARCHED = declared(SearchSettings)
PAUSE_MS = 350
"""After what pause in writing a number counts."""


def section(title: str, children: list[Component]) -> Component:
    return html.Section([html.H2(title), *children], className="set")


def row(label: str, control: Component, term: str) -> Component:
    return with_tip(html.Div([html.Span(label, className="label"), control], className="spread"), term)


def with_tip(part: Component, term: str) -> Component:
    """A part that says what it means (a key of `terms.TERMS`) where it is pointed at or reached by keyboard."""
    assert term in TERMS, term
    setattr(part, "data-term", term)
    return part


def switch(id_: str, label: str, checked: bool, term: str) -> Component:
    return with_tip(html.Div(Switch(children=label, id=id_, checked=checked)), term)


def segments(
    id_: str, value: str, labels: Mapping[str, str], term: str, what: str = "", most: float | None = None
) -> Component:
    """A few choices side by side; what: its name for those who do not see the label above it; most: the largest of
    other numbers."""
    given: dict[str, Any] = {"aria-label": what} if what else {}
    given |= {} if most is None else {"most": most}
    control = Segments(id=id_, data=choices(labels), value=value, **given)
    return with_tip(html.Div(control), term)


def select(id_: str, value: str, labels: Mapping[str, str], what: str, width: int | None = None) -> Component:
    return Select(
        id=id_,
        data=choices(labels),
        value=value,
        **({} if width is None else {"width": width}),
        **{"aria-label": what},
    )


def setting(name: str, session: Session) -> list[Component]:
    """The control of a setting with its label, and what it means."""
    one, control = SETTINGS[name], control_of(name)
    value = one.shown(getattr(session if one in SEARCHED else session.settings, one.field))
    what = control.what or control.label
    chosen = str(value)
    labels = {**control.labels, chosen: control.labels.get(chosen, chosen)}
    if control.shape == SWITCH:
        return [switch(control.id, control.label, bool(value), control.key)]
    if control.shape == SEGMENTS:
        above = [html.Div(control.label, className="label")] if control.label else []
        return [*above, segments(control.id, chosen, control.labels, control.key, what, control.most)]
    if control.shape == NUMBER:
        return [row(control.label, number(control, value, what), control.key)]
    if not control.label:
        return [with_tip(html.Div(select(control.id, chosen, labels, what, control.width)), control.key)]
    return [row(control.label, select(control.id, chosen, labels, what, control.width), control.key)]


def placed(place: str, session: Session, elsewhere: Sequence[str] = ()) -> list[Component]:
    """The settings that are declared to stand there, in order. elsewhere: names of those that stand somewhere else."""
    names = [one.name for one in declared() if one.control is not None and one.control.place == place]
    names = [name for name in names if name not in elsewhere]
    return [part for name in names for part in setting(name, session)]


def number(control: Control, value: float | str, what: str) -> Component:
    given = {"max": control.most, "unit": control.suffix} if control.suffix else {}
    return NumberField(
        id=control.id,
        value=value,
        min=control.least,
        whole=control.whole,
        placeholder=control.empty,
        width=control.width,
        pause_ms=PAUSE_MS,
        **given,
        **{"aria-label": what},
    )


def slider(name: str, shown: Component, **props: object) -> Component:
    """The control of a setting that is a slider. shown: its value, as text or as a field."""
    one = control_of(name)
    head = html.Div([html.Span(one.label, className="label"), shown], className="spread")
    return with_tip(html.Div([head, Slider(id=one.id, **props, **{"aria-label": one.label})]), one.key)


def offered(name: str, value: str, data: Sequence[Mapping[str, object]]) -> Component:
    """The control of a setting whose choices the server has. data: as of `Select`."""
    one = control_of(name)
    return with_tip(
        html.Div(Select(id=one.id, data=data, value=value, **{"aria-label": one.what or one.label})), one.key
    )


def control_of(name: str) -> Control:
    """How the setting is shown, which a page has."""
    control = SETTINGS[name].control
    assert control is not None
    return control


def choices(labels: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"value": key, "label": label} for key, label in labels.items()]
