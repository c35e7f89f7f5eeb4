"""A planner from text: "downset-dp", or "downset-dp:states=100000,exact=false"."""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum

from explorer.question.written.closest import closest
from solvers.errors import InvalidProblem

if typing.TYPE_CHECKING:
    from solvers.search.planner import Planner


def choose_planner(text: str) -> Planner:
    """The planner that ``text`` names, with the options it gives (the fields of its dataclass).

    Raises InvalidProblem for an unknown planner or option, or a value of the wrong type.
    """
    from solvers.planners.registry import PLANNERS

    name, _, given = text.partition(":")
    if name not in PLANNERS:
        raise InvalidProblem(
            f"there is no planner {name!r}{closest(name, PLANNERS)} (`placement-explorer planners` lists them)"
        )
    options = options_of(PLANNERS[name])
    chosen: dict[str, object] = {}
    for part in filter(None, given.split(",")):
        key, separator, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if not separator:
            raise InvalidProblem(f"planner {name}: expected an option as NAME=VALUE, found {part!r}")
        if key not in options:
            known = ", ".join(options) or "none"
            raise InvalidProblem(f"planner {name}: there is no option {key!r}; its options: {known}")
        chosen[key] = _value(value.strip(), options[key][0], f"planner {name}: option {key}")
    try:
        return PLANNERS[name](**chosen)
    except (ValueError, TypeError) as error:
        raise InvalidProblem(f"planner {name}: {error}") from None


def options_of(planner: type[Planner]) -> dict[str, tuple[object, object]]:
    """Option -> (type, default) of a planner's fields."""
    hints = typing.get_type_hints(planner)
    fields = dataclasses.fields(planner)
    return {field.name: (hints[field.name], _default(field)) for field in fields if field.init}


def _default(field: dataclasses.Field[object]) -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _value(text: str, kind: object, where: str) -> object:
    """``text`` as a value of a field's type."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        choices = [choice for choice in typing.get_args(kind) if choice is not type(None)]
        if text.lower() in ("none", "") and len(choices) < len(typing.get_args(kind)):
            return None
        kind = choices[0]
    if typing.get_origin(kind) is typing.Literal:
        for choice in typing.get_args(kind):
            if text == str(choice):
                return choice
        expected = ", ".join(map(str, typing.get_args(kind)))
    elif kind is bool:
        if text.lower() in ("true", "yes", "1", "false", "no", "0"):
            return text.lower() in ("true", "yes", "1")
        expected = "true or false"
    elif kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            expected = "a whole number" if kind is int else "a number"
    elif isinstance(kind, type) and issubclass(kind, Enum):
        for member in kind:
            if text == str(member.value):
                return member
        expected = "one of " + ", ".join(str(member.value) for member in kind)
    else:
        return text
    raise InvalidProblem(f"{where}: expected {expected}, found {text!r}")
