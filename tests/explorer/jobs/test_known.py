"""A worker answers from the library what it, or anybody before it, was asked; and reports what is wrong with one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explorer.cli import main
from explorer.jobs.job_kinds import ask_job, compare_job, help_job, solve_job, sweep_job
from explorer.jobs.requests import AskRequest, CompareRequest, HelpRequest, PlanSource, SolveRequest, SweepRequest
from explorer.library.answer import is_known
from explorer.library.cached_solver import CachedSolver
from explorer.question.loading import load
from explorer.question.packing import packed_graph, packed_problem, unpacked_result
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.search.effort import Effort
from solvers.search.monitor import never
from tests.explorer.cli.command import workload, write

Emitted = list[dict[str, Any]]


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "plans.sqlite"
    monkeypatch.setenv("PLACEMENT_EXPLORER_LIBRARY", str(path))
    return path


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(write(tmp_path, workload()))


def events_of(job: Callable[..., None], request: object, kind: str = "result") -> Emitted:
    emitted: Emitted = []
    job(request, emitted.append, never)
    return [event for event in emitted if event["kind"] == kind]


def test_a_page_that_asks_again_gets_what_is_known(library: Path, model: str) -> None:
    (first,) = events_of(solve_job, SolveRequest(model, Settings()))
    (again,) = events_of(solve_job, SolveRequest(model, Settings()))
    (fresh,) = events_of(solve_job, SolveRequest(model, Settings(), fresh=True))
    (other,) = events_of(solve_job, SolveRequest(model, Settings(), seed=1))
    assert [is_known(event["notes"]) for event in (first, again, fresh, other)] == [False, True, False, False]
    for key in ("status", "stop_reason", "runtime_s", "planner"):
        assert again[key] == first[key], key
    assert again["plan"]["placement"] == first["plan"]["placement"]
    assert again["plan"]["objective_s"] == first["plan"]["objective_s"]
    assert len(again["plan"]["trace"]) == len(first["plan"]["trace"])


def test_a_notebook_that_asks_again_gets_what_is_known(library: Path, model: str) -> None:
    read = load(model)
    problem = make_problem(read, Settings())
    question = packed_problem(problem, packed_graph(problem.graph))
    (first,) = events_of(ask_job, AskRequest(question, read.reference))
    (again,) = events_of(ask_job, AskRequest(question, read.reference))
    (fresh,) = events_of(ask_job, AskRequest(question, read.reference, fresh=True))
    assert [is_known(event["notes"]) for event in (first, again, fresh)] == [False, True, False]
    assert unpacked_result(again["packed"], problem).plan == unpacked_result(first["packed"], problem).plan


def test_a_comparison_asks_only_what_is_not_known(library: Path, model: str) -> None:
    events_of(solve_job, SolveRequest(model, Settings(), planner="equal"))
    rows = events_of(compare_job, CompareRequest(model, Settings(), ("equal", "single")), "row")
    assert len(rows) == 2
    again = events_of(compare_job, CompareRequest(model, Settings(), ("equal", "single")), "row")
    assert [row["row"] for row in again] == [row["row"] for row in rows]  # the seconds of then, too


def test_the_page_asks_a_sweep_and_what_would_help_once(
    library: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = SolveRequest(model, Settings(), effort=Effort.QUICK)
    (answered,) = events_of(solve_job, request)
    plan = PlanSource(held=answered["plan"]["held"])
    question = ((sweep_job, SweepRequest(request, "devices")), (help_job, HelpRequest(request, plan, 4)))

    def parts() -> list[list[dict[str, Any]]]:
        """Without the answers themselves: each plan is held under a new name."""
        emitted = [events_of(job, request, "part") for job, request in question]
        return [[{**event["part"], "answer": None} for event in events] for events in emitted]

    before = parts()
    assert all(len(some) > 2 for some in before)
    monkeypatch.setattr(CachedSolver, "store", None)  # whoever searched would come by
    assert parts() == before  # the seconds of then, too


def test_a_sweep_of_the_page_is_known_to_one_of_the_command(
    library: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = SolveRequest("gpt-small", Settings(), effort=Effort.QUICK, planner="equal")
    events_of(sweep_job, SweepRequest(request, "devices"))
    monkeypatch.setattr(CachedSolver, "store", None)
    arguments = [
        "sweep",
        "gpt-small",
        "--planner",
        "equal",
        "--devices",
        "1,2,4",
        "--effort",
        "quick",
        "--workers",
        "1",
    ]
    assert main([*arguments, "--time-limit", str(request.time_limit_s), "--json"]) == 0
    assert [row["status"] for row in json.loads(capsys.readouterr().out)] == ["OPTIMAL", "FEASIBLE", "FEASIBLE"]


def test_without_a_library_all_is_searched(model: str) -> None:
    for _ in range(2):
        (event,) = events_of(solve_job, SolveRequest(model, Settings()))
        assert not is_known(event["notes"])


def test_what_is_wrong_with_the_library_is_a_note_that_names_no_folder(library: Path, model: str) -> None:
    library.write_text("no library")
    (event,) = events_of(solve_job, SolveRequest(model, Settings()))
    assert event["plan"] is not None
    (note,) = [note for note in event["notes"] if "library" in note]
    assert note.startswith("plans.sqlite is no library of plans")
    assert str(library.parent) not in note
