"""What a browser may send to a widget. A notebook that is opened may hold anybody's output: it is data from outside."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NotRequired, TypedDict, cast

from explorer.question.questions import PLAN
from explorer.question.written.declaring import AUTO
from explorer.question.written.kinds import Number, Whole
from explorer.view.graph.find import MAX_WORDS
from explorer.view.graph.palette import Theme

MAX_TEXT = 400
"""Characters of a name, or of a value that somebody types."""
MAX_DIGITS = 12
"""Of a number that somebody types."""

MAX_PLACES = 100_000
"""In any list that is shown, of devices for one."""

MIN_CANVAS_PX, MAX_CANVAS_PX = 40.0, 10_000.0
"""Of a side of the graph's frame."""

SETTABLE = {one.name: one for one in PLAN if one.control is not None and one.control.in_widget}
"""The settings that have a control."""
SHOWN = ("devices", "device_kind")
"""What a control shows even where nothing is set."""
SELECTED = ("none", "box", "stage", "device", "operator")

Fields = dict[str, object]
Message = TypedDict(
    "Message",
    {
        "type": str,
        "name": NotRequired[str], "value": NotRequired[str | float],
        "kind": NotRequired[str], "id": NotRequired[str], "element": NotRequired[str], "step": NotRequired[int],
        "text": NotRequired[str], "from": NotRequired[float], "to": NotRequired[float],
        "rows": NotRequired[str], "path": NotRequired[bool], "theme": NotRequired[Theme],
        "width": NotRequired[float], "height": NotRequired[float], "device": NotRequired[int | None],
        "place": NotRequired[int], "at_s": NotRequired[float],
    },
)  # fmt: skip
"""A message of the widget, with the fields that its check in `CHECKS` lets through."""


def checked_message(content: object) -> Message | None:
    """A message with known fields of their types, or None for anything else: it is not answered."""
    if not isinstance(content, Mapping) or not isinstance(content.get("type"), str):
        return None
    check = CHECKS.get(content["type"])
    checked = None if check is None else check(content)
    return None if checked is None else cast(Message, {"type": content["type"], **checked})


def value_of(name: str, value: object) -> object:
    """A value as the trait ``name`` takes it: "" and "auto" are None where that means something. What is no number
    stays as it was typed: the trait says what is wrong with it."""
    if not isinstance(value, str):
        return value
    typed, one = value.strip(), SETTABLE[name]
    if typed in ("", AUTO) and one.default is None and name not in SHOWN:
        return None
    if type(one.kind) not in (Whole, Number):
        return typed
    try:
        return int(typed) if isinstance(one.kind, Whole) and len(typed) <= MAX_DIGITS else float(typed)
    except ValueError:
        return typed


def _set(content: Mapping[str, object]) -> Fields | None:
    name, value = content.get("name"), content.get("value")
    if name not in SETTABLE or not isinstance(value, str | int | float | bool):
        return None
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and _finite(value) is None:
        return None
    return {"name": name, "value": value}


def _select(content: Mapping[str, object]) -> Fields | None:
    kind, which = content.get("kind"), content.get("id")
    return {"kind": kind, "id": which} if kind in SELECTED and _is_name(which) else None


def _element(content: Mapping[str, object]) -> Fields | None:
    element = content.get("element")
    return {"element": element} if _is_name(element) else None


def _depth(content: Mapping[str, object]) -> Fields | None:
    return {"step": content["step"]} if content.get("step") in (1, -1) else None


def _find(content: Mapping[str, object]) -> Fields | None:
    wanted = content.get("text")
    return {"text": wanted} if isinstance(wanted, str) and len(wanted) <= MAX_WORDS else None


def _window(content: Mapping[str, object]) -> Fields | None:
    start, end = _finite(content.get("from")), _finite(content.get("to"))
    return {"from": start, "to": end} if start is not None and end is not None and start < end else None


def _view(content: Mapping[str, object]) -> Fields | None:
    if content.get("rows") in ("devices", "stages"):
        return {"rows": content["rows"]}
    return {"path": content["path"]} if isinstance(content.get("path"), bool) else None


def _theme(content: Mapping[str, object]) -> Fields | None:
    return {"theme": content["theme"]} if content.get("theme") in ("light", "dark") else None


def _canvas(content: Mapping[str, object]) -> Fields | None:
    sides = [_finite(content.get(side)) for side in ("width", "height")]
    if any(side is None or not MIN_CANVAS_PX <= side <= MAX_CANVAS_PX for side in sides):
        return None
    return {"width": sides[0], "height": sides[1]}


def _pin(content: Mapping[str, object]) -> Fields | None:
    device = content.get("device")
    if device == "":
        return {"device": None}
    if not isinstance(device, str) or not device.isascii() or not device.isdecimal() or len(device) > 4:
        return None
    return {"device": int(device)}


def _named(content: Mapping[str, object]) -> Fields | None:
    name = content.get("name")
    return {"name": name} if _is_name(name) else None


def _place(content: Mapping[str, object]) -> Fields | None:
    place = content.get("place")
    return {"place": place} if _is_place(place) else None


def _waits(content: Mapping[str, object]) -> Fields | None:
    device, at_s = content.get("device"), _finite(content.get("at_s"))
    return {"device": device, "at_s": at_s} if _is_place(device) and at_s is not None else None


def _nothing(content: Mapping[str, object]) -> Fields:
    return {}


CHECKS: dict[str, Callable[[Mapping[str, object]], Fields | None]] = {
    "set": _set,
    "select": _select,
    "expand": _element,
    "collapse": _element,
    "peek": _element,
    "depth": _depth,
    "find": _find,
    "window": _window,
    "view": _view,
    "theme": _theme,
    "canvas": _canvas,
    "pin": _pin,
    "unpin": _named,
    "course": _nothing,
    "waits": _waits,
    "compare": _nothing,
    "stop": _nothing,
    "show": _place,
    "way": _place,
    "elsewhere": _nothing,
    "review": _nothing,
    "keep": _nothing,
    "differ": _nothing,
    "solve": _nothing,
    "cancel": _nothing,
}


def _is_place(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_PLACES


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


def _finite(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # an integer may be too large to be a float
        return None
