"""Asked through the library, a known question is not searched again, and trouble costs no answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from explorer.library.answer import is_known
from explorer.library.cached_solver import CachedSolver
from explorer.library.library import Library
from explorer.library.place import library_path
from solvers.evaluation.evaluate import evaluate
from solvers.plan.plan import Plan
from solvers.plan.result import Result, StopReason
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from tests.explorer.library.questions import chain, search_question


class Counted:
    """`solve`, and how often it was asked."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, *args: object, **words: object) -> Result:
        self.times += 1
        return solve(*args, **words)  # type: ignore[arg-type]


def test_a_known_question_is_not_searched_again(tmp_path: Path) -> None:
    counted = Counted()
    with CachedSolver(tmp_path / "plans.sqlite", "mine", solve=counted) as solver:
        first, second, other = solver(chain(), "equal"), solver(chain(), "equal"), solver(chain(2.0), "equal")
    assert counted.times == 2
    assert second.plan == first.plan
    assert second.notes[-1].startswith("cached result of 20")
    assert other.objective_s > first.objective_s


def test_fresh_searches_and_still_keeps(tmp_path: Path) -> None:
    counted = Counted()
    path = tmp_path / "plans.sqlite"
    with CachedSolver(path, fresh=True, solve=counted) as solver:
        solver(chain(), "equal")
        assert solver(chain(), "equal").notes == ()
    assert counted.times == 2
    with CachedSolver(path, solve=counted) as solver:
        solver(chain(), "equal")
    assert counted.times == 2


def test_a_fresh_search_that_finds_less_says_what_is_kept(tmp_path: Path) -> None:
    good = solve(chain(), "equal")
    bad = replace(solve(chain(), "single"), planner="equal", stop_reason=StopReason.TIME_LIMIT)
    path = tmp_path / "plans.sqlite"
    with CachedSolver(path) as solver:
        solver(chain(), "equal")
    with CachedSolver(path, fresh=True, solve=lambda *_, **__: bad) as solver:
        result = solver(chain(), "equal")
    assert result.objective_s == bad.objective_s
    assert result.notes[-1].startswith("the library keeps a better answer, of 28 s, cached result of ")
    with CachedSolver(path) as solver:
        assert solver(chain(), "equal").objective_s == good.objective_s


def test_without_a_library_every_question_is_searched() -> None:
    counted = Counted()
    with CachedSolver(None, solve=counted) as solver:
        solver(chain(), "equal")
        solver(chain(), "equal")
    assert counted.times == 2


@dataclass(frozen=True)
class Timed:
    """Seconds of a run, by an estimator of some name: those of the objective, or, turned round, least for the most."""

    name: str = "a run of 2026"
    turned: bool = False

    def __call__(self, problem: Problem, plan: Plan) -> float:
        seconds = evaluate(problem, plan).objective_s(problem.objective)
        return 1 / seconds if self.turned else seconds


def test_what_a_second_estimate_chooses_is_known_by_its_name(tmp_path: Path) -> None:
    counted = Counted()
    with CachedSolver(tmp_path / "plans.sqlite", solve=counted) as solver:
        first, again = solver(chain(), "equal", second=Timed()), solver(chain(), "equal", second=Timed())
        assert counted.times == 1
        assert again.plan == first.plan
        assert is_known(again.notes)
        for second in (None, Timed("a run of 2027")):
            assert not is_known(solver(chain(), "equal", second=second).notes)
    assert counted.times == 3


def test_what_nobody_names_is_neither_looked_up_nor_kept(tmp_path: Path) -> None:
    counted = Counted()
    with CachedSolver(tmp_path / "plans.sqlite", solve=counted) as solver:
        solver(chain(), "equal", second=lambda problem, plan: 1.0)
        solver(chain(), "equal", second=lambda problem, plan: 1.0)
        assert counted.times == 2
        assert solver(chain(), "equal").notes == ()
    assert counted.times == 3


@pytest.mark.parametrize("turned", [False, True])
def test_of_two_answers_the_one_whose_run_takes_less_stays(tmp_path: Path, turned: bool) -> None:
    """Whatever their objectives are."""
    fast, slow = (replace(solve(chain(), name), planner="equal") for name in ("equal", "single"))
    best = slow if turned else fast
    for order in ((fast, slow), (slow, fast)):
        path = tmp_path / f"{order[0].objective_s}.sqlite"
        for one in order:
            with CachedSolver(path, fresh=True, solve=lambda *_, one=one, **__: one) as solver:
                result = solver(chain(), "equal", second=Timed(turned=turned))
        assert (len(result.notes) == 1) is (order[0] is best)
        assert all(note.startswith("the library keeps a better answer, ") for note in result.notes)
        with CachedSolver(path) as solver:
            assert solver(chain(), "equal", second=Timed(turned=turned)).plan == best.plan


def test_a_cancelled_search_is_given_and_run_again(tmp_path: Path) -> None:
    counted = Counted()
    with CachedSolver(tmp_path / "plans.sqlite", solve=counted) as solver:
        stopped = solver(chain(micro_batches=None), "local-search", should_stop=lambda: True)
        assert stopped.stop_reason is StopReason.CANCELLED
        assert solver(chain(micro_batches=None), "local-search").stop_reason is StopReason.FINISHED
    assert counted.times == 2


def _nothing(path: Path) -> None:
    path.parent.mkdir()
    path.parent.rmdir()
    path.parent.write_text("a file where the folder should be")


def _no_sqlite(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"my thesis\n" * 1000)


def _a_folder(path: Path) -> None:
    path.mkdir(parents=True)


@pytest.mark.parametrize("spoil", [_nothing, _no_sqlite, _a_folder])
def test_whatever_is_there_the_answer_is_given_and_one_line_reported(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "data" / "plans.sqlite"
    spoil(path)
    messages: list[str] = []
    with CachedSolver(path, report=messages.append) as solver:
        assert solver(chain(), "equal").plan is not None
        assert solver(chain(), "equal").plan is not None
    assert len(messages) == 1
    assert messages[0].endswith("so no answer is looked up or kept")
    assert "\n" not in messages[0]


def test_the_file_of_somebody_else_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "data" / "plans.sqlite"
    _no_sqlite(path)
    before = path.read_bytes()
    with CachedSolver(path) as solver:
        solver(chain(), "equal")
    assert path.read_bytes() == before


def test_a_dropped_answer_is_searched_again_and_kept_again(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "plans.sqlite"
    messages: list[str] = []
    counted = Counted()
    with CachedSolver(path, report=messages.append, solve=counted) as solver:
        solver(chain(), "equal")
        with sqlite3.connect(path) as file:
            file.execute("UPDATE answers SET bound_s = bound_s * 2")
        file.close()
        assert solver(chain(), "equal").notes == ()
        assert solver(chain(), "equal").notes[-1].startswith("cached result of")
    assert counted.times == 2
    assert len(messages) == 1
    assert "is dropped: it is damaged; it is searched for again" in messages[0]


def test_where_the_library_is() -> None:
    assert library_path({"PLACEMENT_EXPLORER_LIBRARY": "/a/b.sqlite"}) == Path("/a/b.sqlite")
    assert library_path({"PLACEMENT_EXPLORER_LIBRARY": "off", "PLACEMENT_EXPLORER_HOME": "/h"}) is None
    assert library_path({"PLACEMENT_EXPLORER_HOME": "/h", "XDG_DATA_HOME": "/x"}) == Path("/h/plans.sqlite")
    assert library_path({"XDG_DATA_HOME": "/x"}) == Path("/x/placement-explorer/plans.sqlite")
    assert library_path({}) == Path.home() / ".local/share/placement-explorer/plans.sqlite"


def test_without_a_home_there_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert library_path({}) is None


def test_a_python_without_sqlite_costs_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "explorer.library.library", None)
    messages: list[str] = []
    with CachedSolver(tmp_path / "plans.sqlite", report=messages.append) as solver:
        assert solver(chain(), "equal").plan is not None
        assert solver(chain(), "equal").plan is not None
    assert messages == [
        "this Python was built without sqlite3, which the library of plans needs; so no answer is looked up or kept"
    ]


@pytest.mark.parametrize("name", ["a b.sqlite", "?mode=memory", "50%25.sqlite", "plans#1", "ü.sqlite"])
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    with CachedSolver(tmp_path / name) as solver:
        solver(chain(), "equal")
    assert (tmp_path / name).stat().st_size > 0
    with CachedSolver(tmp_path / name) as solver:
        assert solver(chain(), "equal").notes[-1].startswith("cached result of")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_tests_do_not_touch_the_library_of_whoever_runs_them() -> None:
    assert library_path() is None


def test_a_planner_of_somebody_else_is_never_looked_up(tmp_path: Path) -> None:
    from solvers.planners.baselines import EqualSplit

    class Custom(EqualSplit):
        pass

    with CachedSolver(tmp_path / "plans.sqlite") as solver:
        solver(chain(), "equal")
        assert solver(chain(), Custom()).notes == ()
    with Library(tmp_path / "plans.sqlite") as library:
        assert library.find(search_question(planner=Custom())) is None
