"""YAML is read as JSON is, and nothing in it stands for more than it says."""

from __future__ import annotations

import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.question.cluster_file import parse_cluster, parse_yaml
from solvers.errors import InvalidProblem

yaml = pytest.importorskip("yaml", reason="pip install 'placement-explorer[yaml]'")

TEXTS = st.text(st.characters(codec="ascii"), max_size=20).filter(
    lambda text: not re.fullmatch(r"-?[0-9]+[eE][+-]?[0-9]+", text)
)
"""Without such as 0E0: a number in YAML 1.2, as it is read here, and to PyYAML, which follows 1.1, a word."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_as_yaml_comes_back(value: object) -> None:
    assert parse_yaml(yaml.safe_dump(value), "x") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1:30", {"a": "1:30"}),
        ("a: 2026-01-02", {"a": "2026-01-02"}),
        ("a: yes", {"a": "yes"}),
        ("a: 12e9", {"a": 12e9}),
        ("a: '12'", {"a": "12"}),
        ("a: 450GB/s", {"a": "450GB/s"}),
        ("a: 0x10", {"a": "0x10"}),
        ("a:", {"a": None}),
        ("{}", {}),
        ("", None),
    ],
)
def test_plain_words_are_texts_unless_json_has_them(text: str, value: object) -> None:
    assert parse_yaml(text, "x") == value


BOMB = "a: &a [x, x]\n" + "\n".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]" for i in range(20)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "line 1: anchors and aliases are not read"),
        ("a: !!python/object/apply:os.system ['true']", "line 1: tags are not read"),
        ("a: 1\na: 2", "line 2: 'a' is there twice"),
        ("? [1, 2]\n: 3", "a key must be a text"),
        ("a: [1, 2", "line 1 column .*not YAML"),
        ("--- 1\n--- 2", "not YAML"),
        ("[" * 60 + "]" * 60, "nested deeper than 32 levels"),
        ("x" * (2**20 + 1), "bytes of YAML, at most"),
        ("a: \x00", "not YAML"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidProblem, match=words) as refused:
        parse_yaml(text, "mine.yaml")
    assert "\n" not in str(refused.value)


def test_without_the_library_json_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(InvalidProblem, match=r"pip install 'placement-explorer\[yaml\]', or write the same as JSON"):
        parse_yaml("a: 1", "mine.yaml")


def test_a_cluster_in_yaml_is_the_one_in_json() -> None:
    value = {"nodes": [{"count": 2, "devices": "2xV100-16GB", "links": {"wires": "device"}}]}
    shown = parse_cluster(yaml.safe_dump(value), "mine.yaml")
    assert shown == parse_cluster(json.dumps(value), "mine.json") == parse_cluster(json.dumps(value), "as.yaml")


def test_yaml_that_is_no_cluster_is_refused() -> None:
    with pytest.raises(InvalidProblem, match=r"mine\.yaml: no cluster: expected an object with nodes"):
        parse_cluster("hello", "mine.yaml")
