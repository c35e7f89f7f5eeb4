"""Scripts are read as data."""

from __future__ import annotations

import pytest

from explorer.exports.configurations.shell_words import words_of
from solvers.errors import InvalidProblem


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("python x.py --a 1 \\\n  --b=2", ["python", "x.py", "--a", "1", "--b=2"]),
        ("N=4\nrun --a $N --b ${N}", ["run", "--a", "4", "--b", "4"]),
        ("export N=${N:-16}\nrun --a $N", ["export", "run", "--a", "16"]),
        ("N=2\nrun --a $((N * 8 / 4 + 1))", ["run", "--a", "5"]),
        ("A=(\n --x 1 # one (of two)\n --y 2\n)\nrun ${A[@]} --z", ["run", "--x", "1", "--y", "2", "--z"]),
        ('A=(--x 1)\nA+=(--y 2)\nrun "${A[@]}"', ["run", "--x", "1", "--y", "2"]),
        ("# it's a comment\nrun --a", ["run", "--a"]),
        ("run --host $HOSTNAME", ["run", "--host", "$HOSTNAME"]),
    ],
)
def test_words(script: str, words: list[str]) -> None:
    assert words_of(script, "s") == words


@pytest.mark.parametrize("total", ["__import__(os).getcwd()", "9**9**9**9", "1/0", "(1", "1.5", "a.b"])
def test_what_is_no_sum_of_whole_numbers_stays_as_it_stands(total: str) -> None:
    assert words_of(f"run $(({total}))", "s")[1:] == [f"$(({total}))"]


def test_variables_that_hold_themselves_end() -> None:
    assert words_of("A=$A$A\nrun $A", "s")[0] == "run"


@pytest.mark.parametrize(
    "script",
    [
        "A=" + "x" * 10_000 + "\nrun " + "$A" * 50_000,
        "A=xx\n" + "A=$A$A\n" * 40 + "run $A",
        "A=(" + "x " * 20_000 + ")",
    ],
)
def test_values_that_grow_without_end_are_refused_before_they_are_made(script: str) -> None:
    with pytest.raises(InvalidProblem, match=r"s: a (variable|script) of .* (characters|words), at most .* are read"):
        words_of(script, "s")


def test_quotes_that_do_not_close() -> None:
    with pytest.raises(InvalidProblem, match="s: not read as a shell script: no closing quotation"):
        words_of('run "--a', "s")
