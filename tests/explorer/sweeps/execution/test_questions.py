"""Questions and answers as text are the same as before; what is no honest answer is refused in one line."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.sweeps.execution.questions import (
    Answer,
    Question,
    answer_text,
    answered,
    graph_text,
    question_text,
    read_answer,
    read_graph_text,
    read_question,
    read_start,
    start_text,
)
from solvers.errors import PlacementError
from solvers.planners.solve import solve
from tests.explorer.sweeps.execution.remembered import BASE, LIMITS
from tests.explorer.view.small import MIB, chain_workload

PROBLEM = make_problem(chain_workload(), replace(BASE, devices=2))
RESULT = solve(PROBLEM, "equal")


def test_a_question_is_read_as_it_was_written() -> None:
    for settings in (BASE, Settings(devices=3, memory_bytes=2.0**34, recompute=True, max_replicas=0, zero=1)):
        problem = make_problem(chain_workload(), settings)
        question = Question(problem, "equal", LIMITS)
        graph = graph_text(problem.as_traced.graph)
        read = read_question(question_text(question), read_graph_text(graph.text))
        assert (read.planner, read.limits) == ("equal", LIMITS)
        assert question_text(read) == question_text(question)
        assert graph_text(read.problem.as_traced.graph) == graph
        assert solve(read.problem, "equal").plan == solve(problem, "equal").plan


def test_an_answer_is_read_as_it_was_given() -> None:
    read = read_answer(answer_text(answered(RESULT)), PROBLEM)
    assert read.result is not None
    assert read.plan == RESULT.plan
    assert replace(read.result, planner_options={}) == replace(RESULT, planner_options={}, trace=(), front=())
    none = solve(make_problem(chain_workload(), replace(BASE, devices=2, memory_bytes=MIB)), "equal")
    read = read_answer(answer_text(answered(none)), none.problem)
    assert (read.status, read.plan) == ("INFEASIBLE", None)
    assert read.reason == none.notes[-1]
    failed = Answer("FAILED", None, "a rule")
    assert read_answer(answer_text(failed), PROBLEM).reason == "a rule"


def test_a_start_need_not_fit_the_question() -> None:
    assert RESULT.plan is not None
    other = make_problem(chain_workload(), replace(BASE, devices=4))
    assert read_start(start_text(RESULT.plan), other.graph) == RESULT.plan


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda message: message["plan"]["stages"][0]["operators"].pop(), "the plan breaks a rule"),
        (lambda message: message["result"].update(objective_s=1e-9, bound_s=0.0), "that the answer says"),
        (lambda message: message["plan"]["stages"][0]["devices"].__setitem__(0, 7), "an integer from 0 to 1"),
        (lambda message: message.pop("result"), "without a result"),
        (lambda message: message.update(more=1), "unknown field"),
    ],
)
def test_what_is_no_honest_answer_is_refused(spoil: object, words: str) -> None:
    content = json.loads(answer_text(answered(RESULT)))
    spoil(content)  # type: ignore[operator]
    with pytest.raises(PlacementError) as refused:
        read_answer(json.dumps(content), PROBLEM)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
