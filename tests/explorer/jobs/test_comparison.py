"""Planners run side by side: whatever one of them does, the others' answers stand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from explorer.jobs.comparison import compare, entries, split_planners
from explorer.view.comparison import contradictions
from solvers.errors import InvalidProblem
from solvers.planners.baselines import SingleDevice
from solvers.planners.registry import PLANNERS
from solvers.problem.problem import Contiguity, Execution, Objective, Problem
from solvers.search.monitor import Monitor
from tests.explorer.view.small import chain_problem

SMALL = chain_problem(devices=2, mini_batch=4, micro_batches=2, blocks=2, size=2)
LOAD = replace(SMALL, objective=Objective.MAX_LOAD)
PAIR = ("single", "linear-dp")


@dataclass(frozen=True)
class Broken:
    """Raises what no planner may."""

    name: ClassVar[str] = "broken"
    source: ClassVar[str] = "test"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        raise RuntimeError("a wheel came off")


@dataclass(frozen=True)
class Endless:
    """One plan, then no end."""

    name: ClassVar[str] = "endless"
    source: ClassVar[str] = "test"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        return "endless wants acyclic" if problem.contiguity is not Contiguity.ACYCLIC else None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        SingleDevice()(problem, monitor)
        while True:
            monitor.check()


@pytest.mark.parametrize(
    ("text", "planners"),
    [
        ("a", ("a",)),
        ("a,b", ("a", "b")),
        ("a:x=1,y=2,b", ("a:x=1,y=2", "b")),
        ("a,b:x=1,c:y=2", ("a", "b:x=1", "c:y=2")),
        ("a:x=1,a:x=2", ("a:x=1", "a:x=2")),
    ],
)
def test_a_list_of_planners_is_split_at_the_commas_that_end_one(text, planners):
    assert split_planners(text) == planners


@pytest.mark.parametrize("text", ["", "a,,b", "a,b,a", ","])
def test_a_list_with_holes_or_twins_is_refused(text):
    with pytest.raises(InvalidProblem):
        split_planners(text)


def test_the_default_family_is_every_planner_but_an_enumeration_that_would_not_end():
    known = set(PLANNERS) - {"expert"}  # which takes a placement that somebody made
    assert {entry.planner for entry in entries(SMALL)} == known
    assert {entry.planner for entry in entries(chain_problem())} == known - {"brute-force"}


def test_a_planner_that_was_requested_is_listed_with_its_reason():
    done = list(compare(entries(chain_problem(), ("brute-force",))))
    assert [c.row.status for c in done] == ["UNSUPPORTED"]
    assert "placements" in done[0].row.reason


def test_each_run_is_a_row_with_its_result():
    done = list(compare(entries(SMALL, PAIR)))
    assert [c.row.planner for c in done] == list(PAIR)
    for c in done:
        assert c.result is not None
        assert c.row.objective_s == c.result.objective_s == c.row.figures.iteration_s
        assert c.row.figures.peak_bytes > 0


def test_looser_contiguity_is_never_worse_for_the_oracle():
    done = list(compare(entries(LOAD, ("brute-force",), tuple(Contiguity))))
    acyclic, convex, none = (c.row.objective_s for c in done)
    assert none <= convex <= acyclic
    assert {c.row.status for c in done} == {"OPTIMAL"}
    assert contradictions([c.row for c in done]) == []


def test_what_a_planner_breaks_is_its_own_row(monkeypatch):
    monkeypatch.setitem(PLANNERS, "broken", Broken)
    done = list(compare(entries(SMALL, ("broken", "single"))))
    assert [(c.row.planner, c.row.status) for c in done] == [("broken", "FAILED"), ("single", "FEASIBLE")]
    assert "a wheel came off" in done[0].row.reason


def test_a_stop_ends_the_run_at_hand_with_its_plan_and_begins_no_other(monkeypatch):
    monkeypatch.setitem(PLANNERS, "endless", Endless)
    begun, plans = [], []

    def on_progress(_, plan):
        if begun[-1] == "endless" and plan is not None:
            plans.append(plan)

    done = list(
        compare(
            entries(SMALL, ("single", "endless", "linear-dp")),
            should_stop=lambda: bool(plans),
            on_begin=lambda _, entry: begun.append(entry.planner),
            on_progress=on_progress,
        )
    )
    assert begun == ["single", "endless"]
    assert [c.row.planner for c in done] == ["single", "endless"]
    assert (done[-1].row.stop_reason, done[-1].row.has_plan) == ("CANCELLED", True)


def test_those_that_cannot_run_come_first_since_they_take_no_time(monkeypatch):
    monkeypatch.setitem(PLANNERS, "endless", Endless)
    listed = entries(SMALL, ("single", "endless"), (Contiguity.NONE,))
    assert [entry.planner for entry in listed] == ["endless", "single"]
    assert next(compare(listed)).row.status == "UNSUPPORTED"


def test_latency_is_compared_once_whatever_the_contiguities():
    latency = replace(SMALL, objective=Objective.MAKESPAN, execution=Execution.CALL)
    listed = entries(latency, PAIR, tuple(Contiguity))
    assert [entry.planner for entry in listed] == list(PAIR)
