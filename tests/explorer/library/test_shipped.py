"""Answers that ship are those of the questions that the page begins with, by the code of today, and are checked."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.jobs.shipping import MODELS, first_question, question_of_session
from explorer.library import shipped
from explorer.library.answer import is_known
from explorer.library.cached_solver import CachedSolver
from explorer.library.place import LibraryTrouble
from explorer.view.session import Choices, parse, parse_query, to_dict, with_first_question
from solvers.errors import PlacementError
from solvers.plan.result import Result, Status, StopReason
from tests.explorer.library.questions import answer, chain, search_question

AGAIN = "search for it again: python -m explorer.jobs.shipping"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Answers that ship, none yet."""
    file = tmp_path / "answers"
    file.mkdir()
    monkeypatch.setattr(shipped, "FOLDER", file)
    monkeypatch.setattr(shipped.find, "__defaults__", (file,))
    return file


def searched_for(*_: object, **__: object) -> Result:
    pytest.fail("it was searched for")


@pytest.mark.parametrize("model", MODELS)
def test_the_first_question_has_an_answer_of_the_code_of_today(model: str) -> None:
    result = shipped.find(first_question(model))
    assert result is not None, AGAIN
    assert result.plan is not None
    assert is_known(result.notes)


def test_the_page_s_controls_ask_that_question() -> None:
    choices = Choices(("gpt",), ("auto",), ("H100-80GB",))
    shown = with_first_question(parse_query("", choices))
    assert question_of_session(parse(to_dict(shown), choices)).question == first_question("gpt").question


def test_nothing_ships_that_answers_nothing() -> None:
    places = sorted(path.name for path in shipped.FOLDER.iterdir())
    assert places == sorted(f"{first_question(model).question[:16]}.json.gz" for model in MODELS), AGAIN


def test_whoever_has_a_library_gets_what_ships(folder: Path, tmp_path: Path) -> None:
    shipped.store(search_question(), answer(search_question()), "chain", "2026-11-23", folder)
    with CachedSolver(tmp_path / "plans.sqlite", solve=searched_for) as solver:
        result = solver(chain(), "equal")
    assert result.plan == answer(search_question()).plan
    assert result.notes[-1].startswith("cached result of 2026-11-23, ")


def test_without_a_library_and_afresh_it_is_searched_for(folder: Path, tmp_path: Path) -> None:
    shipped.store(search_question(), answer(search_question()), "chain", "2026-11-23", folder)
    for path, fresh in ((None, False), (tmp_path / "plans.sqlite", True)):
        with CachedSolver(path, fresh=fresh) as solver:
            assert not is_known(solver(chain(), "equal").notes)


@pytest.mark.slow
def test_it_answers_no_other_question_and_by_no_other_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped.store(search_question(), answer(search_question()), "chain", "2026-11-23", folder)
    for other in (search_question(chain(2.0)), search_question(seed=1), search_question(time_limit_s=5.0)):
        assert shipped.find(other, folder) is None
    assert shipped.find(search_question(), folder) is not None
    monkeypatch.setattr(shipped, "_written", lambda: "0")
    assert shipped.find(search_question(), folder) is not None  # the same code, in other words
    monkeypatch.setattr(shipped, "code_hash", lambda _: "0")
    assert shipped.find(search_question(), folder) is None


def test_one_that_is_not_what_it_says_is_refused_and_searched_for(folder: Path, tmp_path: Path) -> None:
    file = shipped.store(search_question(), answer(search_question()), "chain", "2026-11-23", folder)
    held = json.loads(gzip.decompress(file.read_bytes()))
    held["answer"]["outcome"]["objective_s"] /= 2
    held["answer"]["outcome"]["bound_s"] = 0.0
    file.write_bytes(gzip.compress(json.dumps(held).encode()))
    with pytest.raises(PlacementError, match="its plan was said to take"):
        shipped.find(search_question(), folder)
    messages: list[str] = []
    with CachedSolver(tmp_path / "plans.sqlite", report=messages.append) as solver:
        assert solver(chain(), "equal").status is not Status.NO_PLAN
    assert messages[0].endswith("it is searched for")
    file.write_bytes(b"no gzip")
    with pytest.raises(PlacementError, match="cannot be read"):
        shipped.find(search_question(), folder)


def test_what_time_ended_does_not_ship(folder: Path) -> None:
    hurried = replace(answer(search_question()), stop_reason=StopReason.TIME_LIMIT)
    with pytest.raises(LibraryTrouble, match="no answer to ship"):
        shipped.store(search_question(), hurried, "chain", "2026-11-23", folder)
