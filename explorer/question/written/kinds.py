"""Kinds of settings: how a value of one is read from Python, from a flag and from a link, and written to a link.

Python is trusted and may pass text with a unit; a link or a message of a browser is not, so numbers stay within limits
and names are among those that the server has. Both readings raise InvalidProblem in one line.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from explorer.question.written.device_lists import kinds_text, parse_caps, parse_kinds
from explorer.question.written.quantities import parse_bandwidth, parse_bytes, parse_seconds
from solvers.errors import InvalidProblem

MAX_DEVICES = 64
"""Of a link that says something of each; and CPUs, which no device stands for."""
MAX_NAME = 200
MAX_PINS = 64
MAX_PIN_TEXT = 8000
MAX_GROUPS = 16
"""Of operators and modules that share a device."""
AUTO_DEGREE = -1
"""In place of a degree: all that divide a node are searched."""
AUTO_WORD, SEARCHED = "auto", "search"
"""How that is written in flags and names of models, and in links, where "auto" means that nothing is set."""
MAX_DEGREE = 64
"""Members of a group. More than a node has is a question of another kind."""
MAX_MIX = 30 * MAX_DEVICES
"""Characters of a kind for each accelerator."""

Schema = dict[str, object]


@dataclass(frozen=True)
class Kind:
    """Any value, which is taken as it is."""

    def read(self, name: str, value: object) -> object:
        """The value that Python gives for the setting ``name``."""
        return value

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> object:
        """An untrusted value. allowed: the names that may be used, for kinds that need them."""
        raise InvalidProblem(f"{key}: cannot be set by a link")

    def to_link(self, value: object) -> object:
        """JSON, which `from_link` reads as the same value."""
        return value

    def flag(self) -> dict[str, object]:
        """What argparse's `add_argument` takes for it, beside name and help."""
        return {}

    def of_flag(self, flag: str, value: object) -> object:
        """The value of what argparse made of a flag."""
        return self.read(flag, value)

    def schema(self) -> Schema:
        return {}


@dataclass(frozen=True)
class Number(Kind):
    """A number. least, most: of a link. rule: what any must be, in words; holds: whether it is."""

    least: float = 0.0
    most: float = math.inf
    rule: str = ""
    holds: Callable[[float], bool] = lambda _: True

    def read(self, name: str, value: object) -> object:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise InvalidProblem(f"{name} must be a number, found {value!r}")
        if not self.holds(value):
            raise InvalidProblem(f"{name} must be {self.rule}, found {value:g}")
        return value

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> object:
        return self.number(key, value)

    def number(self, key: str, value: object) -> float:
        """An untrusted number within the limits."""
        try:
            number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
        except (ValueError, OverflowError):
            number = math.nan
        if not self.least <= number <= self.most:
            raise InvalidProblem(f"{key}: expected a number from {self.least:g} to {self.most:g}, found {shown(value)}")
        return number

    def flag(self) -> dict[str, object]:
        return {"type": float}

    def schema(self) -> Schema:
        return {"type": "number", "minimum": 0}


@dataclass(frozen=True)
class Whole(Number):
    """A whole number, or None. every: text that stands for 0 in a link ("all"), which is less than ``least``."""

    every: str = ""
    choices: tuple[int, ...] = ()

    def read(self, name: str, value: object) -> object:
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise InvalidProblem(f"{name} must be a whole number, found {value!r}")
        return value

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> int:
        if self.every and value == self.every:
            return 0
        number = self.number(key, value)
        if number != int(number):
            raise InvalidProblem(f"{key}: expected a whole number, found {shown(value)}")
        return int(number)

    def to_link(self, value: object) -> object:
        return self.every if self.every and value == 0 else value

    def flag(self) -> dict[str, object]:
        if self.every:
            return {"type": int, "nargs": "?", "const": 0}
        return {"type": int} | ({"choices": self.choices} if self.choices else {})

    def schema(self) -> Schema:
        return {"enum": list(self.choices)} if self.choices else {"type": "integer", "minimum": 0}


@dataclass(frozen=True)
class Degree(Whole):
    """Over how many devices tensors are divided, or AUTO_DEGREE."""

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> int:
        return AUTO_DEGREE if value == SEARCHED else super().from_link(key, value)

    def to_link(self, value: object) -> object:
        return SEARCHED if value == AUTO_DEGREE else value

    def flag(self) -> dict[str, object]:
        return {"type": argument(parse_degree)}

    def schema(self) -> Schema:
        return {"anyOf": [super().schema(), {"enum": [AUTO_WORD]}]}


@dataclass(frozen=True)
class Quantity(Number):
    """A number in the SI unit, or text with a unit. parse: of that text."""

    parse: Callable[[str], float] = parse_bytes

    def read(self, name: str, value: object) -> object:
        if isinstance(value, str):
            return self.parse(value)
        if value is not None and not _is_number(value):
            raise InvalidProblem(f"{name} must be a number, or a text with a unit, found {value!r}")
        return value

    def flag(self) -> dict[str, object]:
        return {"type": argument(self.parse)}

    def schema(self) -> Schema:
        return {"anyOf": [super().schema(), {"type": "string"}]}


SIZE = Quantity(0.0, 2.0**50)
RATE = Quantity(1e3, 1e15, parse=parse_bandwidth)
TIME = Quantity(0.0, 10.0, parse=parse_seconds)


@dataclass(frozen=True)
class Caps(Quantity):
    """A size for all accelerators, or one for each."""

    def read(self, name: str, value: object) -> object:
        if isinstance(value, str):
            return parse_caps(value)
        if value is None or _is_number(value):
            return value
        if not isinstance(value, list | tuple) or not all(isinstance(size, str) or _is_number(size) for size in value):
            raise InvalidProblem(
                f"{name} must be bytes, a text such as '16GiB', or one for each device, found {value!r}"
            )
        return tuple(parse_bytes(size) if isinstance(size, str) else size for size in value)

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> object:
        if not isinstance(value, str) or "," not in value or value.count(",") >= MAX_DEVICES:
            return super().from_link(key, value)
        sizes = value.split(",")
        if not all(size and size != "auto" for size in sizes):
            raise InvalidProblem(f"{key}: expected a size for each accelerator, found {shown(value)}")
        return tuple(super(Caps, self).from_link(key, size) for size in sizes)

    def to_link(self, value: object) -> object:
        return ",".join(plain(size) for size in value) if isinstance(value, tuple) else value

    def flag(self) -> dict[str, object]:
        return {"type": argument(parse_caps)}

    def schema(self) -> Schema:
        one = super().schema()
        return {"anyOf": [Number.schema(self), {"type": "string"}, {"type": "array", "items": one}]}


@dataclass(frozen=True)
class DeviceKinds(Kind):
    """A name of a kind for all accelerators, or one for each ("2xA,B")."""

    def read(self, name: str, value: object) -> object:
        if value is None or isinstance(value, str):
            return None if value is None else parse_kinds(value)
        if not isinstance(value, list | tuple) or not all(isinstance(kind, str) for kind in value):
            raise InvalidProblem(f"{name} must be a name, or one for each device, found {value!r}")
        return tuple(value)

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> object:
        if not isinstance(value, str) or value in allowed or len(value) > MAX_MIX:
            return one_of(key, value, allowed)
        try:
            kinds = parse_kinds(value)
        except InvalidProblem as error:
            raise InvalidProblem(f"{key}: {error}") from None
        each = (kinds,) if isinstance(kinds, str) else kinds
        if len(each) > MAX_DEVICES or not set(each) <= set(allowed):
            raise InvalidProblem(
                f"{key}: expected at most {MAX_DEVICES} accelerators, each one of {', '.join(allowed)};"
                f" found {shown(value)}"
            )
        return kinds

    def to_link(self, value: object) -> object:
        return kinds_text(value) if isinstance(value, str | tuple) and value else None

    def flag(self) -> dict[str, object]:
        return {"type": argument(parse_kinds)}

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


@dataclass(frozen=True)
class Choice(Kind):
    """A member of an enumeration, by its text. optional: whether None is a value, too."""

    members: type[StrEnum]
    optional: bool = False

    def read(self, name: str, value: object) -> object:
        if value is None and self.optional:
            return None
        try:
            return self.members(str(value))
        except ValueError:
            known = ", ".join(self.values())
            raise InvalidProblem(f"no {self.members.__name__.lower()} {value!r}; there are: {known}") from None

    def values(self) -> list[str]:
        return [member.value for member in self.members]

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> object:
        try:
            return self.members(str(value))
        except ValueError:
            raise InvalidProblem(f"{key}: {shown(value)} is not one of the choices") from None

    def to_link(self, value: object) -> object:
        return value.value if isinstance(value, StrEnum) else None

    def flag(self) -> dict[str, object]:
        return {"choices": self.values()}

    def schema(self) -> Schema:
        return {"enum": self.values()}


@dataclass(frozen=True)
class Name(Kind):
    """One of the names that there are where it is read, or a value that has one."""

    names: tuple[str, ...] = ()
    parse: Callable[[str], str] | None = None
    """Of a flag."""

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> object:
        return one_of(key, value, self.names or allowed)

    def flag(self) -> dict[str, object]:
        return {} if self.parse is None else {"type": argument(self.parse)}

    def schema(self) -> Schema:
        return {"enum": list(self.names)} if self.names else {"type": "string"}


@dataclass(frozen=True)
class Switch(Kind):
    """True or false."""

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> bool:
        if value in (True, "true"):
            return True
        if value in (False, "false"):
            return False
        raise InvalidProblem(f"{key}: expected true or false, found {shown(value)}")

    def flag(self) -> dict[str, object]:
        return {"action": "store_true"}

    def schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Rerun(Choice):
    """A choice that was true or false once. yes, no: what these mean; the bare flag means yes."""

    yes: StrEnum | None = None
    no: StrEnum | None = None

    def read(self, name: str, value: object) -> object:
        if value is None or isinstance(value, bool):
            return self.yes if value else self.no
        return super().read(name, value)

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> object:
        once = {"true": True, "false": False, True: True, False: False}
        return self.read(key, once[value]) if value in once else super().from_link(key, value, allowed)

    def flag(self) -> dict[str, object]:
        return {"nargs": "?", "const": str(self.yes), "choices": self.values()}

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "boolean"}, {"enum": self.values()}]}


@dataclass(frozen=True)
class Pins(Kind):
    """{"module or operator": device}. parse: one of a flag."""

    parse: Callable[[str], tuple[str, int]]

    def read(self, name: str, value: object) -> object:
        given = {} if value is None else value
        if not isinstance(given, Mapping):
            raise InvalidProblem(
                f"{name} must be a mapping of operators or modules to devices, found {type(given).__name__}"
            )
        for pinned, device in given.items():
            if not isinstance(pinned, str) or not isinstance(device, int) or isinstance(device, bool):
                raise InvalidProblem(f"a pin is an operator or module and a device index, found {pinned!r}: {device!r}")
        return dict(given)

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> object:
        pins = _json(value)
        if not isinstance(pins, Mapping) or len(pins) > MAX_PINS:
            raise InvalidProblem(f"{key}: expected at most {MAX_PINS} names with a device each, found {shown(value)}")
        for name, device in pins.items():
            _check_name(key, name)
            if type(device) is not int or not 0 <= device < 2 * MAX_DEVICES:
                raise InvalidProblem(f"{key}: expected the number of a device for {shown(name)}, found {shown(device)}")
        return dict(pins)

    def to_link(self, value: object) -> object:
        pins = value if isinstance(value, Mapping) else {}
        return json.dumps(dict(sorted(pins.items())), separators=(",", ":")) if pins else None

    def flag(self) -> dict[str, object]:
        return {"type": argument(self.parse), "action": "append"}

    def of_flag(self, flag: str, value: object) -> object:
        pins: dict[str, int] = {}
        for name, device in value if isinstance(value, list) else ():
            if pins.setdefault(name, device) != device:
                raise InvalidProblem(f"{flag} {name} is given twice, for devices {pins[name]} and {device}; keep one")
        return pins

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}


@dataclass(frozen=True)
class Together(Kind):
    """[["module or operator", "another"]], a list a group, or one list, which is the one group."""

    parse: Callable[[str], tuple[str, ...]]

    def read(self, name: str, value: object) -> object:
        groups = (value,) if _are_names(value) and value else value
        if not isinstance(groups, list | tuple) or not all(map(_are_names, groups)):
            raise InvalidProblem(
                f"{name} must be a list of operators or modules, or several such lists, as in"
                f" [['blocks.0', 'blocks.1']]; found {value!r}"
            )
        return tuple(tuple(group) for group in groups)

    def from_link(self, key: str, value: object, allowed: tuple[str, ...] = ()) -> object:
        groups = _json(value)
        if not isinstance(groups, Sequence) or isinstance(groups, str) or len(groups) > MAX_GROUPS:
            raise InvalidProblem(f"{key}: expected at most {MAX_GROUPS} groups of names, found {shown(value)}")
        for group in groups:
            if not isinstance(group, Sequence) or isinstance(group, str) or not 2 <= len(group) <= MAX_PINS:
                raise InvalidProblem(f"{key}: expected 2 to {MAX_PINS} names in a group, found {shown(group)}")
            for name in group:
                _check_name(key, name)
        return tuple(tuple(group) for group in groups)

    def to_link(self, value: object) -> object:
        return json.dumps(value, separators=(",", ":")) if value else None

    def flag(self) -> dict[str, object]:
        return {"type": argument(self.parse), "action": "append"}

    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}


@dataclass(frozen=True)
class File(Kind):
    """What a file or a name stands for, or that itself. load: of the path or name; several: any number of them."""

    load: Callable[[str], object]
    several: bool = False

    def read(self, name: str, value: object) -> object:
        if not self.several:
            return self.load(value) if isinstance(value, str) else value
        each = value if isinstance(value, Iterable) and not isinstance(value, str) else (value,)
        return tuple(self.load(one) if isinstance(one, str) else one for one in each)

    def flag(self) -> dict[str, object]:
        return {"action": "append"} if self.several else {}

    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "string"}} if self.several else {"type": "string"}


def parse_degree(written: str) -> int:
    """ "auto", or over how many devices tensors are divided. Raises InvalidProblem."""
    if written == AUTO_WORD:
        return AUTO_DEGREE
    if not written.isascii() or not written.isdigit() or int(written[:12]) < 1:
        raise InvalidProblem(f"must be {AUTO_WORD} or a whole number of at least 1, found {written!r}")
    return int(written[:12])


def argument(parse: Callable[[str], object]) -> Callable[[str], object]:
    """``parse`` with the one type of error whose message argparse shows."""

    def convert(text: str) -> object:
        try:
            return parse(text)
        except InvalidProblem as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def one_of(key: str, value: object, allowed: tuple[str, ...]) -> str:
    """An untrusted name that is among ``allowed``. Raises InvalidProblem."""
    if not isinstance(value, str) or len(value) > MAX_NAME or value not in allowed:
        raise InvalidProblem(f"{key}: expected one of {', '.join(allowed)}; found {shown(value)}")
    return value


def plain(value: object) -> str:
    """A value in a query string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.0f}" if isinstance(value, float) and value == int(value) else str(value)


def shown(value: object) -> str:
    """An untrusted value in a message."""
    return repr(value)[:60]


def _check_name(key: str, name: object) -> None:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise InvalidProblem(f"{key}: expected the name of an operator or module, found {shown(name)}")


def _json(value: object) -> object:
    """What a short text says as JSON, None if it is none; what is no text is what it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if len(value) <= MAX_PIN_TEXT else None
    except (ValueError, RecursionError):
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_names(group: object) -> bool:
    return isinstance(group, list | tuple | set | frozenset) and all(isinstance(name, str) for name in group)
