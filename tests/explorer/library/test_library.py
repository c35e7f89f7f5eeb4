"""An answer is found by its exact question, as it was, and never gets worse."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.library.answer import read_answer, write_answer
from explorer.library.library import Library
from explorer.library.place import LibraryTrouble
from explorer.library.rows import row_of, worth_keeping
from solvers.evaluation.evaluate import evaluate
from solvers.formats.json_text import dump_json, parse_json
from solvers.plan.result import Progress, Result, Status, StopReason
from solvers.planners.solve import solve
from tests.explorer.library.questions import answer, chain, search_question


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "plans.sqlite"


def same(cached: Result, result: Result) -> None:
    assert cached.plan == result.plan
    assert cached.front == result.front
    assert cached.trace == result.trace
    assert cached.planner_options == result.planner_options
    for name in ("status", "stop_reason", "objective_s", "bound_s", "runtime_s", "planner", "seed"):
        assert getattr(cached, name) == getattr(result, name), name


def test_what_was_never_solved_is_not_known(path: Path) -> None:
    with Library(path) as library:
        assert library.find(search_question()) is None


def test_an_answer_is_read_by_its_question_as_it_was(path: Path) -> None:
    question = search_question()
    result = answer(question)
    with Library(path) as library:
        assert library.store(question, result, "mine")
    with Library(path) as library:
        known = library.find(search_question())
        assert known is not None
        same(known.result, result)
        assert known.listed.model == "mine"
        assert known.result.notes[-1].startswith(f"cached result of {known.listed.kept_at[:10]}, ")
        assert library.find(search_question(seed=1)) is None


def test_an_answer_of_the_portfolio_comes_back_with_its_front_and_course(path: Path) -> None:
    of = chain(micro_batches=None, mini_batch=8)
    result = solve(of, "auto", time_limit_s=20)
    from solvers.planners.auto import Auto

    question = search_question(of, Auto(), time_limit_s=20.0)
    with Library(path) as library:
        library.store(question, result, "")
        known = library.find(question)
    assert known is not None
    assert len(result.trace) > 1
    same(known.result, result)
    assert evaluate(of, known.result.plan) == evaluate(of, result.plan)


def test_that_nothing_fits_is_an_answer(path: Path) -> None:
    question = search_question(chain(memory=0.5))
    result = answer(question)
    assert result.status is Status.INFEASIBLE
    with Library(path) as library:
        library.store(question, result, "")
        known = library.find(question)
    assert known is not None
    same(known.result, result)
    assert known.result.notes[:-1] == result.notes


@pytest.mark.parametrize(
    ("status", "reason", "worth"),
    [
        (Status.FEASIBLE, StopReason.CANCELLED, False),
        (Status.FEASIBLE, StopReason.TIME_LIMIT, True),
        (Status.FEASIBLE, StopReason.STATE_LIMIT, True),
        (Status.NO_PLAN, StopReason.TIME_LIMIT, False),
        (Status.NO_PLAN, StopReason.FINISHED, True),
        (Status.INFEASIBLE, StopReason.FINISHED, True),
    ],
)
def test_what_is_kept_is_what_would_come_again(status: Status, reason: StopReason, worth: bool) -> None:
    result = answer(search_question())
    plan = result.plan if status is Status.FEASIBLE else None
    assert worth_keeping(replace(result, plan=plan, status=status, stop_reason=reason)) is worth


def test_a_cancelled_search_is_not_kept(path: Path) -> None:
    question = search_question()
    with Library(path) as library:
        assert not library.store(question, replace(answer(question), stop_reason=StopReason.CANCELLED), "")
        assert library.find(question) is None


def test_an_answer_never_gets_worse(path: Path) -> None:
    question = search_question()
    good = answer(question)
    bad = solve(question.problem, "single")
    assert bad.objective_s > good.objective_s
    late = replace(bad, stop_reason=StopReason.TIME_LIMIT, status=Status.FEASIBLE, bound_s=0.0)
    with Library(path) as library:
        assert library.store(question, late, "")
        assert library.store(question, good, "")
        assert not library.store(question, late, "")
        known = library.find(question)
        assert known is not None
        assert known.result.objective_s == good.objective_s


def test_of_equal_plans_the_one_of_which_more_is_proved_stays(path: Path) -> None:
    question = search_question()
    result = answer(question)
    less = replace(result, bound_s=result.bound_s / 2, status=Status.FEASIBLE)
    with Library(path) as library:
        assert library.store(question, less, "")
        assert library.store(question, result, "")
        assert not library.store(question, less, "")
        known = library.find(question)
        assert known is not None
        assert known.result.bound_s == result.bound_s


def test_a_time_limit_is_stated(path: Path) -> None:
    question = search_question()
    with Library(path) as library:
        library.store(question, replace(answer(question), stop_reason=StopReason.TIME_LIMIT), "")
        known = library.find(question)
        assert known is not None
        assert known.result.notes[-1].endswith("ms, when the time limit ended it")


def test_compiling_is_no_part_of_an_answer(path: Path) -> None:
    question = search_question()
    result = replace(answer(question), notes=("worth knowing", "compiling kernels took 12 s, one time only"))
    with Library(path) as library:
        library.store(question, result, "")
        known = library.find(question)
        assert known is not None
        assert known.result.notes[:-1] == ("worth knowing",)


def _spoiled(path: Path, question: str, change: dict[str, object]) -> None:
    """Change fields of the answer in the file, and set everything else right again, checksum included."""
    from explorer.library.rows import COLUMNS, checksum

    with sqlite3.connect(path) as file:
        row = file.execute("SELECT * FROM answers WHERE question = ?", (question,)).fetchone()
        shown = row[: len(COLUMNS)]
        value = parse_json(zlib.decompress(row[-2]), "")
        assert isinstance(value, dict)
        for where, new in change.items():
            at, *rest = where.split(".")
            if rest:
                value[at][rest[0]] = new
            else:
                value[at] = new
        content = zlib.compress(dump_json(value).encode())
        file.execute(
            "UPDATE answers SET answer = ?, checksum = ? WHERE question = ?",
            (content, checksum(shown, content), question),
        )
    file.close()


SPOILED = {
    "a plan that is too fast": {"outcome.objective_s": 0.001},
    "a bound above the objective": {"outcome.bound_s": 1e9},
    "no number": {"outcome.bound_s": "low"},
    "another status": {"outcome.status": "SUPERB"},
    "optimal without a plan": {"plan": None},
    "a plan that is no plan": {"plan": {"stages": 7}},
    "an operator that is not there": {
        "plan": {"pipeline": "1f1b", "stages": [{"operators": [99], "devices": [0]}], "order": [[], []]}
    },
    "operators left out": {
        "plan": {"pipeline": "1f1b", "stages": [{"operators": [0], "devices": [0]}], "order": [["0F0"], []]}
    },
    "a field more": {"__reduce__": "os.system"},
    "a step of words": {"trace": [["soon", 1, 1, "", ""]]},
}


@pytest.mark.parametrize("how", SPOILED)
def test_what_does_not_verify_is_dropped_and_reported(path: Path, how: str) -> None:
    question = search_question()
    with Library(path) as library:
        library.store(question, answer(question), "")
        _spoiled(path, question.hash, SPOILED[how])
        with pytest.raises(LibraryTrouble, match="held an answer that is dropped") as caught:
            library.find(question)
        assert "\n" not in str(caught.value)
        assert library.find(question) is None


@pytest.mark.parametrize("column", ["status", "bound_s", "seconds", "kept_at", "answer", "checksum", "model"])
def test_what_a_disk_did_to_a_row_is_noticed(path: Path, column: str) -> None:
    question = search_question()
    with Library(path) as library:
        library.store(question, answer(question), "")
        with sqlite3.connect(path) as file:
            file.execute(f"UPDATE answers SET {column} = x'00'")
        file.close()
        with pytest.raises(LibraryTrouble, match="dropped: it is damaged"):
            library.find(question)
        assert library.store(question, answer(question), "")
        assert library.find(question) is not None


def test_an_answer_that_would_grow_without_end_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from explorer.library import rows

    question = search_question()
    with Library(path) as library:
        library.store(question, answer(question), "")
        monkeypatch.setattr(rows, "MAX_BYTES", 100)
        with pytest.raises(LibraryTrouble, match="more than 100 bytes"):
            library.find(question)


def test_reading_back_what_was_written_changes_nothing() -> None:
    question = search_question()
    result = replace(answer(question), trace=(Progress(0.5, math.inf, math.inf, "x", "y"),))
    text = write_answer(question, result, "m")
    same(read_answer(text.encode(), question), result)


def test_a_graph_is_kept_once_and_goes_with_its_last_answer(path: Path) -> None:
    questions = [search_question(seed=seed) for seed in range(3)]
    with Library(path) as library:
        for question in questions:
            library.store(question, answer(question), "")
        with sqlite3.connect(path) as file:
            assert file.execute("SELECT count(*) FROM graphs").fetchone() == (1,)
        assert library.remove([questions[0].hash, "nothing"]) == 1
        assert library.find(questions[0]) is None
        assert library.find(questions[1]) is not None
        library.remove([questions[1].hash, questions[2].hash])
        assert file.execute("SELECT count(*) FROM graphs").fetchone() == (0,)
        file.close()


def test_the_file_grows_no_further_than_it_may(path: Path) -> None:
    questions = [search_question(seed=seed) for seed in range(200)]
    result = answer(questions[0])
    with Library(path, most_bytes=2**17) as library:
        for question in questions:
            assert library.store(question, result, "m" * 500)
        known = [library.find(question) is not None for question in questions]
    assert known[-1]
    assert 10 < sum(known) < 200
    assert path.stat().st_size < 2 * 2**17


def test_threads_share_one_library(path: Path) -> None:
    questions = [search_question(seed=seed) for seed in range(40)]
    result = answer(questions[0])
    failed: list[BaseException] = []
    with Library(path) as library:

        def store_all(part: list) -> None:
            try:
                for question in part:
                    library.store(question, result, "")
                    assert library.find(question) is not None
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=store_all, args=(questions[i::4],)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert all(library.find(question) is not None for question in questions)


def test_a_forked_process_opens_the_file_again(path: Path) -> None:
    first, second = search_question(seed=1), search_question(seed=2)
    result = answer(first)
    with Library(path) as library:
        library.store(first, result, "")
        child = os.fork()
        if child == 0:
            try:
                library.store(second, result, "")
                os._exit(0 if library.find(first) is not None else 3)
            finally:
                os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert library.find(second) is not None


def test_what_is_written_to_a_terminal_holds_nothing_that_it_would_obey(path: Path) -> None:
    question = search_question()
    with Library(path) as library:
        library.store(question, replace(answer(question), notes=("a\x1b[2Jb",)), "m")
        known = library.find(question)
    assert known is not None
    assert known.result.notes[0] == "a [2Jb"


def test_a_date_that_is_none_is_damage(path: Path) -> None:
    from explorer.library.rows import COLUMNS, checksum

    question = search_question()
    with Library(path) as library:
        library.store(question, answer(question), "m")
        with sqlite3.connect(path) as file:
            row = list(file.execute("SELECT * FROM answers").fetchone())
            row[COLUMNS.index("kept_at")] = "\x1b[2J\x1b[31m"
            row[-1] = checksum(tuple(row[: len(COLUMNS)]), row[-2])
            file.execute(f"REPLACE INTO answers VALUES ({', '.join('?' * len(row))})", row)
        file.close()
        with pytest.raises(LibraryTrouble, match="dropped: it is damaged"):
            library.find(question)


def test_only_the_user_can_read_the_file(path: Path) -> None:
    with Library(path):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_row_states_the_question_and_who_answered() -> None:
    question = search_question(chain(gpus=3))
    row = row_of(question, answer(question), "gpt")
    assert row[2:7] == ("gpt", "equal", "normal", "iteration", 3)
    assert '"solvers":"' in str(row[13])
