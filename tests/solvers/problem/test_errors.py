"""A refusal is one line of bounded length, whatever it quotes."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from solvers.errors import InvalidPlan, InvalidProblem, RunError, one_line, printable, printable_lines

SEEN_OR_JOINING = {chr(code) for code in (0x200C, 0x200D, 0x70F, 0x8E2, 0x6DD, 0x890, 0x891, 0x110BD, 0x110CD)} | set(
    map(chr, (*range(0x600, 0x606), *range(0x13430, 0x13440)))
)
"""Of the format characters, those that are drawn (signs around digits, in hieroglyphs) or that shape what is."""


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


def test_whatever_is_no_letter_to_be_seen_is_a_blank_and_all_else_stays() -> None:
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        kind = unicodedata.category(letter)
        hidden = kind in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in SEEN_OR_JOINING
        nothing = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
        assert (printable(letter) == " ") == (hidden or nothing or letter == " " or _reserved(code)), hex(code)


def _reserved(code: int) -> bool:
    """Not assigned, and never to be seen: Default_Ignorable_Code_Point of Unicode 14."""
    return code == 0x2065 or 0xFFF0 <= code <= 0xFFF8 or 0xE0000 <= code <= 0xE00FF


@pytest.mark.parametrize(
    "name", ["größe", "模型/卷积", "👩\u200d🔬 🏳️\u200d🌈", "نمی\u200cخواهم", "a\u00a0b\u3000c", "x²"]
)
def test_names_in_any_script_stay_as_they_are(name: str) -> None:
    assert printable(name) == name


def test_lines_of_a_text_stay_lines() -> None:
    assert printable_lines("a\x1b\nb\r") == "a \nb "
    assert printable_lines("a\x1b\r\nb\r", ("\r\n", "\n")) == "a \r\nb "
