"""A record comes back as it was written, and what its fields are not declared to be is refused with its place."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import pytest

from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.records import (
    STATED,
    Within,
    among,
    check_record,
    read_record,
    record_json,
    record_of,
    table,
    table_json,
)


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Part:
    name: Annotated[str, Within(most=5)]
    size: Annotated[int, Within(1, 9)] = 1


@dataclass(frozen=True)
class Whole:
    seconds: float
    colour: Colour
    parts: Annotated[tuple[Part, ...], Within(most=2)]
    error: Annotated[float, Field.number_or_infinity]
    limit: float | None = None
    of: Annotated[Mapping[str, int], Within(most=2)] = field(default_factory=dict)
    way: Annotated[str | None, among(None, "up")] = None
    flag: Annotated[bool, STATED] = False


WHOLE = Whole(0.5, Colour.RED, (Part("a"), Part("b", 3)), math.inf, of={"x": 1}, way="up")


def read(**changes: Any) -> Whole:
    value = json.loads(json.dumps(record_json(WHOLE))) | changes
    return read_record(Field({key: item for key, item in value.items() if item != "-"}, "file:"), Whole)


def test_a_record_comes_back_as_it_was() -> None:
    assert read() == WHOLE
    assert read(limit="-", of="-", way="-") == Whole(0.5, Colour.RED, WHOLE.parts, math.inf)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": -1}, "file: seconds: expected a finite number >= 0, found -1"),
        ({"seconds": None}, "file: seconds: expected a finite number"),
        ({"colour": "blue"}, "file: colour: expected one of red"),
        ({"parts": [{"name": "abcdef"}]}, "file: parts[0].name: expected a text of at most 5 characters"),
        ({"parts": [{"name": "a", "size": 10}]}, "file: parts[0].size: expected an integer from 1 to 9, found 10"),
        ({"parts": [{"size": 1}]}, "file: parts[0].name: missing"),
        ({"parts": [{"name": "a"}] * 3}, "file: parts: expected a list of at most 2"),
        ({"of": {"x": True}}, "file: of['x']: expected an integer"),
        ({"way": "down"}, "file: way: expected one of null, up, found 'down'"),
        ({"flag": "-"}, "file: flag: missing"),
        ({"more": 1}, "file: more: unknown field"),
    ],
)
def test_what_is_not_declared_is_refused_with_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidProblem) as refusal:
        read(**changes)
    assert str(refusal.value).startswith(message.split(", found")[0])
    assert message in str(refusal.value)


def test_what_is_known_is_not_read() -> None:
    assert record_of(Part, {"size": Field(2, "")}, name="longer than five") == Part("longer than five", 2)


def test_what_python_makes_is_held_to_the_same_limits() -> None:
    check_record(Part("a"))
    with pytest.raises(InvalidProblem, match="size: expected an integer from 1 to 9, found 0"):
        check_record(Part("a", 0))


def test_a_table_names_its_fields_once() -> None:
    value = table_json(Part, WHOLE.parts)
    assert value == {"fields": ["name", "size"], "rows": [["a", 1], ["b", 3]]}
    assert table(Part, 2)(Field(value, "")) == WHOLE.parts
    for wrong, expected in (
        ({"fields": ["size"], "rows": []}, "the fields name, size"),
        ({"fields": ["name", "size"], "rows": [["a"]]}, "a list of 2"),
        ({"fields": ["name", "size"], "rows": [["a", 1]] * 3}, "at most 2"),
    ):
        with pytest.raises(InvalidProblem, match=expected):
            table(Part, 2)(Field(wrong, ""))
