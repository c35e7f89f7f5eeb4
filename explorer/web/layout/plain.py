"""Parts of the page that are only HTML, as HTML: Dash keeps account of every component at every change.

What has neither a control nor a callback below it is drawn in one go, and changed by `assets/fields/plain.js`,
which puts itself before ``set_props``. The elements are those that Dash would have made.
"""

from __future__ import annotations

from collections.abc import Set
from html import escape
from typing import ClassVar

from dash import Dash
from dash.development.base_component import Component

HTML = "dash_html_components"
VOID = frozenset({"br", "hr", "img", "input", "wbr"})
_NAMES = {"className": "class", "htmlFor": "for"}
_OF_DASH = frozenset({"children", "n_clicks", "key", "n_clicks_timestamp", "disable_n_clicks", "loading_state"})


class Own(Component):
    """A component that the page's own scripts draw (`assets/fields/`)."""

    _namespace = "placement_explorer"
    _children_props: ClassVar[list[str]] = []
    _base_nodes: ClassVar[list[str]] = []
    _valid_wildcard_attributes: ClassVar[list[str]] = []
    available_wildcard_properties: ClassVar[list[str]] = []
    properties: ClassVar[str] = ""
    """Their names, with spaces between."""

    def __init_subclass__(cls) -> None:
        cls._type = cls.__name__
        cls._prop_names = cls.available_properties = cls.properties.split()


class Plain(Own):
    """An element with everything in it. own: its attributes as React names them; html: what is in it."""

    properties = "tag own html"


class Stored(Own):
    """Data for callbacks, drawn as nothing."""

    properties = "id data"


def called_back(app: Dash) -> frozenset[str]:
    """The ids that ``app``'s callbacks read or write."""
    names = set()
    for callback in app.callback_map.values():
        names |= {each["id"] for each in (*callback["inputs"], *callback["state"])}
        outputs = callback["output"]
        names |= {each.component_id for each in (outputs if isinstance(outputs, list | tuple) else [outputs])}
    return frozenset(names)


def with_plain(part: object, of_dash: Set[str]) -> object:
    """The same layout with every part that can be plain made so. of_dash: ids that stay Dash's."""
    if isinstance(part, list | tuple):
        return [with_plain(each, of_dash) for each in part]
    if not isinstance(part, Component):
        return part
    if _can_be(part, of_dash):
        tag = part._type.lower()
        own = {name: value for name, value in _props(part).items() if name not in _OF_DASH}
        return Plain(tag=tag, own=own, html=markup(getattr(part, "children", None)))
    if getattr(part, "children", None) is not None:
        part.children = with_plain(part.children, of_dash)
    return part


def markup(part: object) -> str:
    """HTML of components of `dash.html`; everything else is text, and escaped."""
    if part is None:
        return ""
    if isinstance(part, list | tuple):
        return "".join(map(markup, part))
    if not isinstance(part, Component):
        return escape(str(part))
    tag = part._type.lower()
    inside = "" if tag in VOID else f"{markup(getattr(part, 'children', None))}</{tag}>"
    return f"<{tag}{''.join(_attribute(*each) for each in _props(part).items())}>{inside}"


def _attribute(name: str, value: object) -> str:
    if name in _OF_DASH or value is None:
        return ""
    attribute = _NAMES.get(name, name if "-" in name else name.lower())
    if isinstance(value, bool):
        if "-" in attribute:
            return f' {attribute}="{str(value).lower()}"'
        return f" {attribute}" if value else ""
    return f' {attribute}="{escape(str(value))}"'


def _props(part: Component) -> dict[str, object]:
    """By name: Dash keeps those with a hyphen in the order of a set, another in every process."""
    return dict(sorted(part.to_plotly_json()["props"].items()))


def _can_be(part: object, of_dash: Set[str]) -> bool:
    if isinstance(part, list | tuple):
        return all(_can_be(each, of_dash) for each in part)
    if not isinstance(part, Component):
        return True
    styled = isinstance(getattr(part, "style", None), dict)
    return (
        part._namespace == HTML
        and not styled
        and getattr(part, "id", None) not in of_dash
        and _can_be(getattr(part, "children", None), of_dash)
    )
