"""A refusal is one line of bounded length, whatever it quotes."""

from __future__ import annotations

import pytest

from solvers.errors import InvalidPlan, InvalidProblem, RunError, one_line


@pytest.mark.parametrize("kind", [InvalidProblem, InvalidPlan])
def test_a_message_is_one_line_whatever_it_quotes(kind: type[Exception]) -> None:
    assert str(kind("f.json: version 1\n2\u2028\x1b[31m3\x85: unknown")) == "f.json: version 1 2 [31m3 : unknown"


def test_a_long_number_in_a_message_loses_its_middle_and_the_rest_stays() -> None:
    message = str(InvalidProblem(f"f.json: nodes[3]: 'size' is {'9' * 4000}; expected a size"))
    assert message == f"f.json: nodes[3]: 'size' is {'9' * 52}...{'9' * 24}; expected a size"


def test_a_message_of_many_words_keeps_its_beginning_and_its_end() -> None:
    message = str(InvalidProblem("where: " + "word " * 1000 + "what to do"))
    assert len(message) == InvalidProblem.longest
    assert message.startswith("where: word word")
    assert message.endswith("word what to do")


def test_a_message_that_fits_is_as_it_was() -> None:
    path = "/folder" * 40 + "/model.json: no such file"
    assert str(InvalidProblem(path)) == path
    assert str(RunError("word " * 300 + "end")) == "word " * 300 + "end"


def test_lines_may_be_made_shorter_still() -> None:
    assert one_line("a\tb\nc", 9) == "a b c"
    assert one_line("abcdefghijklmnop", 9) == "abcd...op"
