"""Reading parsed JSON field by field: every refusal says where, what was expected and what was found."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple, NoReturn, TypeVar

from solvers.errors import InvalidProblem, printable

MAX_TEXT = 10_000
"""Longest name or note read, in characters."""
MAX_INTEGER = 2**53
"""Largest integer read: beyond it a float is no longer exact."""

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


class Field(NamedTuple):
    """A JSON value and where it stands: ``plan.json: graph.operators[3].flops``, as a text, or as the field that it is
    in and what it is called there. A file has hundreds of thousands, so that is put into words only where it is asked
    for.

    Every method raises InvalidProblem if the value is not what the method is named for.
    """

    value: object
    within: str | Field
    key: str | int = ""
    free: bool = False
    """Whether the key is an entry's in an object with free keys."""

    @property
    def where(self) -> str:
        if isinstance(self.within, str):
            return self.within
        if self.free:
            return f"{self.within.where}[{str(self.key)[:80]!r}]"
        return f"{self.within.where}[{self.key}]" if isinstance(self.key, int) else self.within._at(self.key)

    def refuse(self, expected: str) -> NoReturn:
        raise InvalidProblem(f"{self.where}: expected {expected}, found {shown(self.value)}")

    def located(self, make: Callable[[], T]) -> T:
        """What ``make`` gives; the InvalidProblem it raises instead gets this field's place."""
        try:
            return make()
        except InvalidProblem as error:
            raise InvalidProblem(f"{self.where.removesuffix(':')}: {error}") from None

    @property
    def is_null(self) -> bool:
        return self.value is None

    def fields(self, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Field]:
        """The fields of an object that has all of ``required`` and nothing beyond ``optional``."""
        fields = self.fields_among_others(required)
        for key in fields:
            if key not in required and key not in optional:
                known = ", ".join((*required, *optional))
                raise InvalidProblem(f"{self._at(str(key)[:80])}: unknown field; known are {known}")
        return fields

    def fields_among_others(self, required: tuple[str, ...]) -> dict[str, Field]:
        """The fields of an object that has all of ``required`` and maybe others."""
        if not isinstance(self.value, dict):
            self.refuse("an object")
        for key in required:
            if key not in self.value:
                raise InvalidProblem(f"{self._at(key)}: missing")
        return {key: Field(item, self, key) for key, item in self.value.items()}

    def mapping(self, most: int) -> dict[str, Field]:
        """The entries of an object with free keys, at most ``most``; the keys are printable."""
        if not isinstance(self.value, dict):
            self.refuse("an object")
        if len(self.value) > most:
            self.refuse(f"at most {most:,} entries")
        entries = {printable(str(key)): Field(item, self, key, True) for key, item in self.value.items()}
        if len(entries) < len(self.value):
            self.refuse("keys that differ in what can be seen of them")
        return entries

    def items(self, most: int, *, exactly: int | None = None) -> Iterator[Field]:
        """The items of a list of at most ``most``, or of exactly ``exactly``."""
        if not isinstance(self.value, list):
            self.refuse("a list")
        if exactly is not None and len(self.value) != exactly:
            self.refuse(f"a list of {exactly:,}")
        if len(self.value) > most:
            self.refuse(f"a list of at most {most:,}")
        return (Field(item, self, i) for i, item in enumerate(self.value))

    def number(self, least: float = 0.0) -> float:
        """A finite number >= ``least``."""
        value = math.nan
        if isinstance(self.value, int | float) and not isinstance(self.value, bool):
            with suppress(OverflowError):
                value = float(self.value)
        if not math.isfinite(value) or value < least:
            self.refuse(f"a finite number >= {least:g}" if math.isfinite(least) else "a finite number")
        return value

    def number_or_infinity(self, least: float = 0.0) -> float:
        """A number, or null for infinity."""
        return math.inf if self.value is None else self.number(least)

    def integer(self, least: int = 0, most: int = MAX_INTEGER) -> int:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            self.refuse(f"an integer from {least} to {most}" if most < MAX_INTEGER else f"an integer >= {least}")
        return value

    def text(self, most: int = MAX_TEXT) -> str:
        """A name or a sentence, made `solvers.errors.printable`."""
        return printable(self.prose(most))

    def prose(self, most: int) -> str:
        """A text of many lines, as it is."""
        if not isinstance(self.value, str) or len(self.value) > most:
            self.refuse(f"a text of at most {most:,} characters")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            self.refuse("true or false")
        return self.value

    def choice(self, kind: type[E]) -> E:
        """A member of a StrEnum, by its value."""
        if self.value not in [member.value for member in kind]:
            self.refuse("one of " + ", ".join(member.value for member in kind))
        return kind(self.value)

    def _at(self, key: str) -> str:
        return f"{self.where} {key}" if self.where.endswith(":") else f"{self.where}.{key}"


def shown(value: object) -> str:
    """What was found, in a few words of one line, however long it is."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        return f"an object of {len(value):,}"
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        return "a huge integer"
    words = repr(value)
    return words if len(words) <= 60 else words[:57] + "..."
