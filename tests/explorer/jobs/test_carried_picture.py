"""The previous plan is a picture of the next question, and never changes its answer."""

from __future__ import annotations

from dataclasses import replace

from explorer.jobs.held_plans import carried_picture, hold, with_carried_note
from solvers.plan.result import Result, Status, StopReason
from solvers.planners.solve import solve
from solvers.search.effort import Effort
from tests.explorer.view.small import chain_problem, even_plan

FOUR = chain_problem(4)


def on(devices, **more):
    """The same graph on other devices."""
    return replace(chain_problem(devices, **more), graph=FOUR.graph)


def held(problem=FOUR):
    return hold(Result(problem, even_plan(problem), Status.FEASIBLE, StopReason.FINISHED, 1.0, 0.0, 0.1, "auto"), "x")


def test_a_plan_is_taken_over_to_fewer_devices():
    plan, seconds = carried_picture(on(2), held())
    assert set(plan.devices_used()) == {0, 1}
    assert seconds > 0


def test_what_fits_no_more_or_is_of_another_graph_or_is_gone_is_no_picture():
    assert carried_picture(on(4, memory_bytes=2.0**20), held()) is None
    assert carried_picture(chain_problem(4, blocks=3), held()) is None
    assert carried_picture(FOUR, "plan-0-0") is None


def test_an_equal_graph_is_the_same_whichever_worker_made_the_plan():
    assert carried_picture(chain_problem(4), held()) is not None


def test_the_answer_says_where_what_was_taken_over_is_better():
    result = Result(FOUR, even_plan(FOUR), Status.FEASIBLE, StopReason.FINISHED, 1.0, 0.0, 0.1, "auto")
    assert with_carried_note(result, 0.9).notes[-1].endswith("10 % faster: more effort may find it or better")
    assert with_carried_note(result, 1.0) is result
    assert with_carried_note(result, 0.9).plan is result.plan


def test_the_same_question_has_the_same_answer_whatever_came_before():
    problem = on(3)
    first = solve(problem, "auto", effort=Effort.QUICK).plan
    carried_picture(problem, held())
    assert solve(problem, "auto", effort=Effort.QUICK).plan == first
