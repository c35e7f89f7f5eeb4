"""A question is answered by the figures of a plan, and only if nothing else was changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.view.lessons.answering import NONE, known, verdict, wanted
from explorer.view.lessons.figures import FIGURES, figure_text, figures_of
from explorer.view.lessons.lesson import Goal, Question
from explorer.view.lessons.stated import as_stated, changed, controls_of, session_of
from explorer.view.plan_view import plan_view
from solvers.evaluation.evaluate import evaluate
from tests.explorer.view.lessons.written import CHOICES, read
from tests.explorer.view.small import chain_problem, even_plan

STEP = {"model": "chain", "devices": 2, "micro_batches": 4}
BUBBLE = Question((Goal("bubble", "<", None, 0.9),), ("micro_batches",), (), ())


def view():
    problem = chain_problem()
    plan = even_plan(problem)
    return plan_view(problem, plan, planner="auto", objective_s=evaluate(problem, plan).iteration_s, bound_s=0.0)


def session(**settings):
    return session_of({**STEP, **settings}, CHOICES)


def test_every_figure_is_computed_of_a_plan():
    figures = figures_of(view())
    assert figures.keys() == FIGURES.keys()
    assert all(figure_text(name, value) for name, value in figures.items())
    assert figures["stages"] == figures["depth"] == 4
    micro_batches = figures["micro_batches"]
    assert figures["formula"] == pytest.approx(3 / (micro_batches + 3))
    assert known(None) == NONE


def test_a_plan_answers_if_it_meets_the_goal_and_only_what_may_move_has_moved():
    begun, then = session(), {"bubble": 0.4}
    assert verdict(BUBBLE, begun, None, {"bubble": 0.1}, NONE).state == "waiting"
    assert verdict(BUBBLE, begun, begun, then, then).state == "asked"
    assert verdict(BUBBLE, session(micro_batches=8), begun, {"bubble": 0.39}, then).state == "wrong"
    assert verdict(BUBBLE, session(micro_batches=8), begun, {"bubble": 0.3}, then).state == "right"
    assert verdict(BUBBLE, session(micro_batches=8), begun, NONE, then).lead == "There is no plan for this."
    assert verdict(BUBBLE, session(micro_batches=8), begun, {"bubble": 0.3}, NONE).state == "waiting"
    elsewhere = verdict(BUBBLE, session(micro_batches=8, devices=4), begun, {"bubble": 0.3}, then)
    assert (elsewhere.state, "GPUs" in elsewhere.lead) == ("elsewhere", True)


def test_a_look_or_a_theme_is_no_answer():
    begun = session()
    assert changed(replace(session(graph="stages"), theme="dark"), begun) == frozenset()
    assert changed(session(devices=3), begun) == {"devices"}


@pytest.mark.parametrize(
    ("relation", "than", "met"),
    [("<", 2.0, False), ("<=", 2.0, True), (">", 2.0, False), (">=", 2.0, True), ("=", 2.0, True), ("=", 3.0, False)],
)
def test_relations(relation, than, met):
    question = Question((Goal("depth", relation, than),), ("devices",), (), ())
    shown = verdict(question, session(devices=4), session(), {"depth": 2.0}, {"depth": 5.0})
    assert shown.state == ("right" if met else "wrong")


def test_what_is_wanted_is_stated_in_words():
    goals = (Goal("bubble", "<", 0.2), Goal("peak_memory", "<=", None, 0.5))
    assert wanted(goals, {"peak_memory": 2.0**31}) == "bubble below 20 %, peak memory at most 1 GiB"
    assert wanted(goals, NONE) == "bubble below 20 %, peak memory at most that of the first plan"


def test_a_steps_settings_are_a_question_of_the_page():
    step = read().steps[1]
    session = session_of(step.settings, CHOICES)
    shown = controls_of(session)
    assert (shown["model"], shown["devices"], shown["memory"], shown["device_kind"]) == ("chain", 2, 2**30, "toy")
    assert shown["look"] == {"graph": "operators", "rows": "auto", "link_rows": "auto", "path": False}
    assert as_stated(session, session, step.settings)
    assert as_stated(replace(session, seed=3), session, step.settings)
    assert not as_stated(session_of({**step.settings, "devices": 3}, CHOICES), session, step.settings)


def test_what_a_run_took_is_a_figure_once_there_is_one():
    plan = plan_view(chain_problem(), even_plan(chain_problem()), planner="even", objective_s=2.0, bound_s=1.0)
    assert known(plan)["measured"] is known(plan)["measured_ratio"] is None
    figures = known(plan, {"measured_s": 3.0})
    assert (figures["measured"], figures["measured_ratio"]) == (3.0, 1.5)
    assert figure_text("measured_ratio", 1.5) == "1.5"
