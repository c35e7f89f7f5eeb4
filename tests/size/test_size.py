"""Functions stay short, and what counts them counts right."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.size import __main__ as command
from tests.size.count import Function, Size, functions, rooms, size_of, without_words
from tests.size.limits import STILL_OVER, STILL_OVER_OUTSIDE, over_the_limits

SOLVERS = Path(__file__).parents[2] / "solvers"

SMALL = '''"""A file
of two lines of docstring."""

import os  # a comment

LINES = """
def not_a_function():
    # not a comment
"""


@njit(cache=True)
def first(a, b, *, c=lambda x, y: (x, y), d: dict[str, int] = {1: 2, 3: 4}):
    """One line."""
    # a comment that stands alone

    return f(
        a, "# nor this", b
    )


class Holder:
    def method(
        self,
        *many,
    ):
        def inner(x): return x
        return inner
'''


TREES = [(SOLVERS, STILL_OVER), (SOLVERS.with_name("explorer"), STILL_OVER_OUTSIDE)]


@pytest.mark.parametrize(("folder", "may"), TREES, ids=["solvers", "explorer"])
def test_no_function_is_longer_or_takes_more_than_the_limits(folder: Path, may: frozenset[str]) -> None:
    over = over_the_limits(folder)
    assert {name: size for name, size in over.items() if name not in may} == {}


@pytest.mark.parametrize(("folder", "may"), TREES, ids=["solvers", "explorer"])
def test_what_is_within_the_limits_again_is_struck_off_the_list(folder: Path, may: frozenset[str]) -> None:
    assert over_the_limits(folder).keys() >= may


def test_blanks_comments_and_docstrings_are_no_code(tmp_path: Path) -> None:
    (path := tmp_path / "small.py").write_text(SMALL, encoding="utf-8")
    # import, the constant's 4 lines, decorator, def, 3 of the return, class, 4 of the signature, 2 of the body
    assert size_of(path) == Size(files=1, lines=28, code=17, comments=2, long=0, wide=0)


def test_functions_have_their_lines_arguments_and_kind() -> None:
    plain, _ = without_words(SMALL)
    assert list(functions(plain)) == [
        Function("first", lines=7, arguments=4, is_kernel=True),
        Function("method", lines=6, arguments=1, is_kernel=False),
        Function("inner", lines=1, arguments=1, is_kernel=False),
    ]


@pytest.mark.parametrize(("decorator", "most"), [("", 60), ("@njit(cache=True)\n", 120)])
def test_a_function_may_have_as_many_lines_as_the_limit_and_none_more(decorator: str, most: int) -> None:
    for lines in (most, most + 1):
        (only,) = functions(f"{decorator}def f(x):\n" + "    x += 1\n" * (lines - 1) + "\n\nx = 1\n")
        assert only.lines == lines
        assert only.is_long == (lines > most)


def test_ten_arguments_are_too_many_and_self_is_none() -> None:
    nine = ", ".join(f"a{n}" for n in range(9))
    assert [each.is_wide for each in functions(f"def f(self, {nine}): pass\ndef g(z, {nine}): pass\n")] == [False, True]


def test_a_room_is_shown_with_its_folders_and_its_tests(tmp_path: Path) -> None:
    for name in ("solvers/joint/a.py", "solvers/joint/exact/b.py", "tests/solvers/joint/test_a.py"):
        (path := tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\ny = 2\n", encoding="utf-8")
    now = rooms(tmp_path, ("solvers", "tests"))
    cells = command.row("solvers/joint", now, {}).split()
    assert cells == ["solvers/joint", *"244000020"]
    assert command.shown(now, {}, "solvers") == ["solvers/joint", "solvers"]


def test_the_figures_of_the_last_release_are_there() -> None:
    assert '"solvers/joint/exact": [' in command.RELEASED.read_text(encoding="utf-8")
