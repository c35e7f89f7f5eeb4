"""What is looked for in reports and exports is noticed where it is, and hostile inputs are what they are called."""

from __future__ import annotations

import random
import tomllib
from xml.etree import ElementTree

import pytest

from solvers.errors import printable
from solvers.formats.plan_json import PlanFile
from tests.explorer.view.small import chain_problem, even_plan
from tests.fuzz import shown
from tests.fuzz.hostile import HOSTILE, LEGITIMATE, RUNS, hostile_bytes, hostile_text, hostile_tree
from tests.fuzz.shown import check_exports, check_texts

NOTICED = (AssertionError, SyntaxError, ElementTree.ParseError, tomllib.TOMLDecodeError)


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (".csv", "a\r\n =1+1\r\n"), (".csv", '"a;@b"\r\n'), (".csv", "-x\r\n"), (".json", '{"a": "\\u001b"}'),
        (".json", "NaN"), (".sh", f"X=(1); {RUNS}"), (".sh", "X=(1"), (".py", "x = eval"), (".py", "x = "),
        (".svg", "<svg><script>1</script></svg>"), (".svg", '<svg onload="x"/>'), (".html", "<p><img src=x></p>"),
        (".html", "<iframe></iframe>"), (".toml", "a = 1\na = 2"),
    ],
)  # fmt: skip
def test_a_file_that_does_something_is_noticed(ending: str, words: str) -> None:
    with pytest.raises(NOTICED):
        shown._CHECKS[ending](words)


def test_a_text_that_is_not_printable_is_noticed_however_deep_it_is() -> None:
    check_texts({"a": ["é 模型", ("b\nc", {1, 2})]})
    for value in ({"a\x1b": 1}, [("\u202e",)], chain_problem_called("\x07")):
        with pytest.raises(AssertionError, match="not printable"):
            check_texts(value)


def chain_problem_called(name: str) -> object:
    """A problem that a name got into past everything that cleans it."""
    problem = chain_problem()
    object.__setattr__(problem.graph, "name", name)
    return problem


def test_a_plan_of_ours_passes_in_every_format() -> None:
    problem = chain_problem()
    check_exports(PlanFile(problem, even_plan(problem), None, "chain"))


def test_hostile_names_are_printable_once_they_are_cleaned_and_others_stay() -> None:
    assert all(printable(printable(name)) == printable(name) for name in HOSTILE)
    assert all(printable(name) == name for name in LEGITIMATE)


def test_a_hostile_input_is_the_same_each_time_and_another_one_each_seed() -> None:
    tree = {"name": "a", "operators": [{"name": "b", "samples": 3}], "reference": "c"}
    for make in (
        lambda seed: hostile_tree(tree, random.Random(seed)),
        lambda seed: hostile_text("a: b\nc: d\n", random.Random(seed)),
        lambda seed: hostile_bytes(b"\x05module.layer.weight\x00", random.Random(seed)),
    ):
        assert make(1) == make(1)
        assert len({repr(make(seed)) for seed in range(20)}) > 10
