"""Two plans in one line."""

from explorer.view import versus
from explorer.view.plan_view import plan_view
from solvers.evaluation.evaluate import evaluate
from tests.explorer.view.small import branches_problem, chain_problem, even_plan, pair_plans

PROBLEM = branches_problem()


def facts(plan, planner, problem=PROBLEM):
    seconds = evaluate(problem, plan).iteration_s
    return versus.facts(plan_view(problem, plan, planner=planner, objective_s=seconds, bound_s=0.0), planner)


def test_the_story_names_time_depth_and_bubble_and_how_much_faster():
    graph, row = pair_plans(PROBLEM)
    told = [facts(graph, "graph-pipeline"), facts(row, "pipedream-iter/in-sequence")]
    words = versus.story(told)
    assert words == "Graph pipeline 14.9 ms, depth 3, bubble 40 %; sequential 25.1 ms, depth 7, bubble 65 %"
    assert versus.verdict(told) == "1.69× faster."
    assert versus.verdict(told[::-1]) == "1.69× slower."


def test_on_a_chain_they_are_equal_and_it_says_why():
    problem = chain_problem()
    plan = even_plan(problem)
    told = [facts(plan, "graph-pipeline", problem), facts(plan, "pipedream-iter/in-sequence", problem)]
    assert versus.verdict(told) == "equally fast, as both are chains of stages."
    told[1]["seconds"] *= 1.01
    assert versus.verdict(told) == "1.01× faster; both are chains."


def test_any_two_planners_are_told_by_their_names():
    graph, row = pair_plans(PROBLEM)
    assert versus.story([facts(graph, "equal"), facts(row, "single")]).startswith("Equal split 14.9 ms")
    assert "; single 25.1 ms" in versus.story([facts(graph, "equal"), facts(row, "single")])
    assert "; PipeDream 25.1 ms" in versus.story([facts(graph, "heft"), facts(row, "pipedream")])
    assert "; equal split 25.1 ms" in versus.story([facts(graph, "heft"), facts(row, "equal")])
    assert "; Piper in sequence 25.1 ms" in versus.story([facts(graph, "heft"), facts(row, "piper/in-sequence")])
