"""GraphPipe's search as published: what joins branches is part of a stage of theirs, not a stage of its own."""

from __future__ import annotations

import pytest

from solvers.contiguous.sequential import in_sequence
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.planners.solve import solve
from solvers.problem.problem import Objective
from tests.instances import problem, training_graph

BRANCHES = ((0, 1), (1, 4), (2, 3), (3, 4))
"""Two branches of two, a and b beside c and d, and e that joins them (GraphPipe, section 7.5, with half as many)."""


def two_branches(join_s, gpus=4):
    seconds = [1.0, 1.0, 1.0, 1.0, join_s]
    graph = training_graph(BRANCHES, 5)
    return problem(
        graph, [*seconds, *(2 * s for s in seconds)], gpus, objective=Objective.ITERATION, mini_batch=8, micro_batches=8
    )


def published(p):
    result = solve(p, GraphPipeline(mode="paper"))
    return result.objective_s, {
        "".join(sorted(p.graph.operators[o].name for o in stage.operators if o < 5)) for stage in result.plan.stages
    }


def test_a_join_is_in_the_last_stage_of_a_branch():
    seconds, stages = published(two_branches(0.01))
    assert stages in ({"a", "be", "c", "d"}, {"a", "b", "c", "de"})
    # The join's stage waits for both stages of the other branch, then has 8 micro-batches of 3.03 s, and the
    # gradients of the last go back through both.
    assert seconds == pytest.approx(2 + 8 * 3.03 + 4)


def test_branches_beside_each_other_are_done_sooner_than_one_after_the_other():
    p = two_branches(0.01)
    assert published(in_sequence(p, range(5)))[0] == pytest.approx(3 + 8 * 3.03 + 6)
    assert published(p)[0] < published(in_sequence(p, range(5)))[0]


def test_a_join_with_work_of_its_own_is_a_stage_where_that_lowers_the_bottleneck():
    seconds, stages = published(two_branches(1.0, gpus=5))
    assert stages == {"a", "b", "c", "d", "e"}
    assert seconds == pytest.approx(2 + 8 * 3 + 4)
