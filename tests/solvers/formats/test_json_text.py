"""Strict JSON: everything else is refused in one line."""

from __future__ import annotations

import pytest

from solvers.errors import InvalidProblem
from solvers.formats import json_text
from solvers.formats.json_text import dump_json, parse_json


def test_reads_a_value_with_a_byte_order_mark() -> None:
    assert parse_json(b'\xef\xbb\xbf{"a": [1, 2.5, null, "x"]}', "f") == {"a": [1, 2.5, None, "x"]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": [1, 2', "f: the JSON ends too early"),
        (b'{"a": "b', "f: the JSON ends too early"),
        (b"", "f: the JSON ends too early"),
        (b"{'a': 1}", "f: not JSON: .* line 1 column 2"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": 1e999}', "the number 1e999 is too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "the number 9{40}... is too large; every number must be finite"),
        (b'{"a": -' + b"9" * 400 + b"}", "the number -9{39}... is too large; every number must be finite"),
        (b'{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        (b'{"a": "\xff"}', "not UTF-8 text"),
        (b"[" * 40 + b"]" * 40, "nested deeper than 32 levels"),
        (b"[" * 200_000, "nested deeper than 32 levels"),
    ],
    ids=range(13),
)
def test_refuses(data: bytes, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message) as caught:
        parse_json(data, "f")
    assert "\n" not in str(caught.value)


def test_refuses_what_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "MAX_BYTES", 4)
    with pytest.raises(InvalidProblem, match="at most 4 are read"):
        parse_json(b"[1,2]", "f")


def test_never_writes_what_is_not_json() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        dump_json([float("nan")])
