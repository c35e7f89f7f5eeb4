"""Frozen dataclasses as JSON: written as they stand, read back by what their fields are declared to be.

    @dataclass(frozen=True)
    class Ended:
        rank: Annotated[int, Within(0, 4095)]
        took_s: float | None
        words: Annotated[tuple[str, ...], Within(most=8)] = ()

A field is a bool, a number from 0 on, a text, a StrEnum, a dataclass of such fields, a tuple or a mapping from text of
one of these, or one of these or null. `Within` states other limits; a function of a `Field` in its place reads what
none of this says. A field with a default may be missing, unless it is `STATED`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from solvers.formats.json_fields import MAX_INTEGER, MAX_TEXT, Field
from solvers.formats.json_text import finite_or_none

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
Read = Callable[[Field], Any]
Declaration = tuple[dict[str, Read], tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Within:
    """Limits of a number; ``most`` alone: of the characters of a text, or of how many are in a tuple or a mapping."""

    least: float = 0.0
    most: float = math.inf


class _Stated:
    pass


STATED = _Stated()
"""Of a field that must be there, though Python may leave it out."""


def among(*values: object) -> Read:
    """Reads one of these, and nothing else."""

    def read(field: Field) -> object:
        if field.value not in values:
            field.refuse("one of " + ", ".join("null" if value is None else str(value) for value in values))
        return field.value

    return read


def record_json(value: object) -> Any:
    """A record, or what one is made of, as JSON. null stands for a number that is not finite."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, float):
        return finite_or_none(value)
    if isinstance(value, Mapping):
        return {key: record_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [record_json(item) for item in value]
    if is_dataclass(value):
        return {each.name: record_json(getattr(value, each.name)) for each in fields(value)}
    return value


def read_record(field: Field, kind: type[T]) -> T:
    """A dataclass of an object that has its fields and no others. Raises InvalidProblem, as all that reads here."""
    return record_of(kind, field.fields(*keys_of(kind)))


def reader_of(kind: type[T], **instead: Read) -> Callable[[Field], T]:
    """What reads a dataclass as `read_record` does. instead: what reads some of its fields, whatever they are declared
    to be."""
    readers, must, may = _declaration(kind, instead)

    def read(field: Field) -> T:
        return kind(**{name: readers[name](part) for name, part in field.fields(must, may).items()})

    return read


def record_of(kind: type[T], parts: Mapping[str, Field], **known: object) -> T:
    """A dataclass of its fields. known: those that are not read."""
    given = {name: read(parts[name]) for name, read in readers_of(kind).items() if name in parts and name not in known}
    return kind(**given, **known)


def keys_of(kind: type[DataclassInstance]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields that must be there, and those that may be missing."""
    return _declared(kind)[1:]


def table_json(kind: type[DataclassInstance], rows: Iterable[object]) -> dict[str, object]:
    """Many records of a kind, their fields named once."""
    names = [each.name for each in fields(kind)]
    return {"fields": names, "rows": [[getattr(row, name) for name in names] for row in rows]}


def table(kind: type[DataclassInstance], most: int) -> Read:
    """Reads the records of a table of at most ``most`` rows."""

    def read(field: Field) -> tuple[Any, ...]:
        parts, cells = field.fields(("fields", "rows")), readers_of(kind)
        if parts["fields"].value != list(cells):
            parts["fields"].refuse(f"the fields {', '.join(cells)}")
        rows = (row.items(len(cells), exactly=len(cells)) for row in parts["rows"].items(most))
        return tuple(kind(*(reader(cell) for reader, cell in zip(cells.values(), row, strict=True))) for row in rows)

    return read


def check_record(value: DataclassInstance) -> None:
    """Raises InvalidProblem, naming the field, for a dataclass that Python made and that could not be read."""
    for name, read in readers_of(type(value)).items():
        given = getattr(value, name)
        read(Field(list(given) if isinstance(given, tuple) else given, name))


def readers_of(kind: type[DataclassInstance]) -> Mapping[str, Read]:
    """What reads each field of a dataclass, in their order."""
    return _declared(kind)[0]


@cache
def _declared(kind: Any) -> Declaration:
    return _declaration(kind, {})


def _declaration(kind: Any, instead: Mapping[str, Read]) -> Declaration:
    """What reads each field of a dataclass; those that must be there; those that may be missing."""
    hints = get_type_hints(kind, include_extras=True)
    without = {each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING}
    read = {each.name: instead.get(each.name) or _reader(hints[each.name]) for each in fields(kind)}
    must = tuple(name for name in read if name in without or STATED in get_args(hints[name]))
    return read, must, tuple(name for name in read if name not in must)


def _reader(hint: Any, within: Within | None = None) -> Read:
    """What reads a value that is declared to be ``hint``."""
    origin, given = get_origin(hint), get_args(hint)
    if origin is Annotated:
        of, *how = (one for one in given if one is not STATED)
        if how and not isinstance(how[0], Within):
            return how[0]  # type: ignore[no-any-return]
        return _reader(of, how[0] if how else None)
    if origin in (Union, UnionType):
        return nullable(_reader(next(one for one in given if one is not NoneType), within))
    limits = within or Within()
    most = None if math.isinf(limits.most) else int(limits.most)
    if hint is bool:
        return Field.flag
    if hint is int:
        return lambda field: field.integer(int(limits.least), MAX_INTEGER if most is None else most)
    if hint is float:
        return lambda field: field.number(limits.least)
    if hint is str:
        return lambda field: field.text(MAX_TEXT if most is None else most)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return lambda field: field.choice(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda field: read_record(field, hint)
    assert most is not None, f"{hint}: say with Within how many there may be"
    read = _reader(given[0] if origin is tuple else given[1])
    if origin is tuple:
        return lambda field: tuple(read(item) for item in field.items(most))
    return lambda field: {name: read(item) for name, item in field.mapping(most).items()}


def nullable(read: Read) -> Read:
    return lambda field: None if field.is_null else read(field)
