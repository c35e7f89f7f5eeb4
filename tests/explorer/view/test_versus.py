"""Two plans in one line."""

from dataclasses import replace

import pytest

from explorer.view import versus
from explorer.view.figures import figures_of, question_hash
from explorer.view.plan_view import plan_view
from solvers.evaluation.evaluate import evaluate
from solvers.problem.problem import Objective
from tests.explorer.view.small import branches_problem, chain_problem, even_plan, pair_plans

PROBLEM = branches_problem()


def member(plan, planner, problem=PROBLEM):
    seconds = evaluate(problem, plan).iteration_s
    return versus.member(plan_view(problem, plan, planner=planner, objective_s=seconds, bound_s=0.0), planner)


def figures(problem, **question):
    changed = replace(problem, **question)
    return figures_of(changed, evaluate(changed, even_plan(changed)))


def test_the_story_names_time_depth_and_bubble_and_how_much_faster():
    graph, row = pair_plans(PROBLEM)
    shown = [member(graph, "graph-pipeline"), member(row, "pipedream-iter/in-sequence")]
    words = versus.story(shown)
    assert words == "Graph pipeline 14.9 ms, depth 3, bubble 40 %; sequential 25.1 ms, depth 7, bubble 65 %"
    assert versus.pair_verdict(shown) == "1.69× faster."
    assert versus.pair_verdict(shown[::-1]) == "1.69× slower."


def test_on_a_chain_they_are_equal_and_it_says_why():
    problem = chain_problem()
    plan = even_plan(problem)
    shown = [member(plan, "graph-pipeline", problem), member(plan, "pipedream-iter/in-sequence", problem)]
    assert versus.pair_verdict(shown) == "equally fast, as both are chains of stages."
    slower = replace(shown[1].figures, objective_s=shown[1].figures.objective_s * 1.01)
    assert versus.pair_verdict([shown[0], replace(shown[1], figures=slower)]) == "1.01× faster; both are chains."


def test_any_two_planners_are_named():
    graph, row = pair_plans(PROBLEM)
    assert versus.story([member(graph, "equal"), member(row, "single")]).startswith("Equal split 14.9 ms")
    assert "; single 25.1 ms" in versus.story([member(graph, "equal"), member(row, "single")])
    assert "; PipeDream 25.1 ms" in versus.story([member(graph, "heft"), member(row, "pipedream")])
    assert "; equal split 25.1 ms" in versus.story([member(graph, "heft"), member(row, "equal")])
    assert "; Piper in sequence 25.1 ms" in versus.story([member(graph, "heft"), member(row, "piper/in-sequence")])


@pytest.mark.parametrize("question", [{"mini_batch": 32}, {"max_replicas": 2}, {"costs_from": "measured"}])
def test_a_plan_that_answers_another_question_is_never_called_better(question):
    problem = chain_problem()
    one, other = figures(problem), figures(problem, **question)
    assert not versus.is_one_question(one, other)
    assert versus.verdict(one, other) == "not comparable"
    assert versus.ratio(one, other) is not None  # how their times compare can still be shown


def test_times_of_another_objective_or_model_do_not_compare_at_all():
    problem = chain_problem()
    one = figures(problem)
    assert versus.ratio(one, figures(problem, objective=Objective.MAX_LOAD)) is None
    assert versus.ratio(one, replace(one, graph="another")) is None
    assert versus.ratio(one, replace(one, mini_batch=2 * one.mini_batch)) == 0.5  # half the time a sample


def test_a_question_is_the_same_whoever_asks_it():
    assert question_hash(chain_problem()) == question_hash(chain_problem())
    assert question_hash(chain_problem()) != question_hash(chain_problem(2))
