"""1F1B is 1F1B: whoever plans, and whatever was asked before."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from solvers.formats.plan_json import read_plan, write_plan
from solvers.plan.drafts import Draft, DraftStage
from solvers.planners.check import check
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Objective, Pipeline
from solvers.schedules.realise import realise
from solvers.schedules.textbook import further_ahead, is_one_f_one_b, one_f_one_b
from tests.instances import problem, training_graph
from tests.random_problems import random_problem

PIPELINED = ("auto", "graph-pipeline", "pipedream-iter", "piper", "layer-split", "equal", "tied-ends", "local-search")


def chain(pipeline, count=4, micro_batches=8):
    """A chain of four equal operators, trained, each on a device."""
    graph = training_graph([(i, i + 1) for i in range(count - 1)], count)
    return problem(
        graph, [1.0] * len(graph), count, mini_batch=micro_batches, micro_batches=micro_batches, bandwidth=1e9,
        pipeline=pipeline,
    )  # fmt: skip


def drafted(p, **ahead):
    forward_of = [o if each.forward_of is None else each.forward_of for o, each in enumerate(p.graph.operators)]
    count = len(p.cluster)
    stages = [tuple(o for o, home in enumerate(forward_of) if home == s) for s in range(count)]
    return realise(p, Draft(tuple(DraftStage(own, 1, **ahead) for own in stages)), [(d,) for d in range(count)])


@pytest.mark.parametrize("ahead", [{"slack": 2}, {"block": 2}])
def test_stages_that_run_ahead_do_so_only_where_that_is_set(ahead):
    free, question = chain(Pipeline.K_F_K_B), chain(Pipeline.ONE_F_ONE_B)
    assert not is_one_f_one_b(free, drafted(free, **ahead))
    plan = drafted(question, **ahead)
    assert is_one_f_one_b(question, plan)
    assert [stage.in_flight for stage in plan.stages] == [4, 3, 2, 1]


def test_a_plan_that_keeps_more_in_flight_is_no_answer_to_1f1b():
    free, question = chain(Pipeline.K_F_K_B), chain(Pipeline.ONE_F_ONE_B)
    plan = drafted(free, slack=2)
    assert check(free, plan) == ()
    assert check(question, plan)[0] == "stage 0 keeps 6 micro-batches in flight, more than 1F1B does"
    assert check(question, one_f_one_b(question, plan)) == ()


@pytest.mark.parametrize("planner", PIPELINED)
@pytest.mark.parametrize("seed", range(6))
def test_every_planner_answers_1f1b_with_1f1b(planner, seed):
    p = random_problem(
        seed, largest=6, training=True, objective=Objective.ITERATION, pipeline=Pipeline.ONE_F_ONE_B,
        contiguity=Contiguity.ACYCLIC,
    )  # fmt: skip
    if PLANNERS[planner]().unsupported(p):
        return
    result = solve(p, planner)
    assert result.plan is None or is_one_f_one_b(p, result.plan)


def test_orders_further_ahead_are_tried_on_the_same_stages():
    p = chain(Pipeline.ONE_F_ONE_B)
    plan = drafted(p)
    for other in further_ahead(p, plan):
        assert [stage.operators for stage in other.stages] == [stage.operators for stage in plan.stages]
        assert max(stage.in_flight for stage in other.stages) > 4
        assert check(replace(p, pipeline=Pipeline.K_F_K_B), other) == ()


@pytest.mark.parametrize(
    ("pipeline", "word"),
    [(Pipeline.K_F_K_B, "1f1b"), (Pipeline.ONE_F_ONE_B, "1f1b-textbook"), (Pipeline.GPIPE, "gpipe")],
)
def test_files_keep_what_1f1b_meant(pipeline, word):
    """Before, it left planners free to run ahead."""
    p = chain(pipeline)
    text = write_plan(p, drafted(p))
    assert json.loads(text)["problem"]["pipeline"] == word
    assert read_plan(text).problem.pipeline is pipeline
