"""Searches that leave a freedom of the problem unused claim nothing about plans that use it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds.combinatorial import lower_bound_s
from solvers.evaluation.evaluate import judge
from solvers.noncontiguous.planners.max_load_ip import MaxLoadIP
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.result import Status
from solvers.planners.check import check
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import ComputeTable, Contiguity, Objective, Pipeline
from solvers.schedules.realise import realise
from tests.instances import GPU, forward_graph, problem, training_graph


def two_speeds(**options):
    """Two operators on two devices: one is three times as fast per sample in large micro-batches, the other in
    small ones, so that with one size the busier device takes 3 s a sample, with two sizes 1 s."""
    p = problem(
        forward_graph([(0, 1)], 2), [1, 1], 2, training=False, mini_batch=4, micro_batches=None,
        mixed_micro_batches=True, **options,
    )  # fmt: skip
    table = ComputeTable((1, 2, 4), {GPU: np.array([[3.0, 6.0, 4.0], [1.0, 6.0, 12.0]])})
    return replace(p, compute=table)


@pytest.mark.parametrize("contiguity", [Contiguity.ACYCLIC, Contiguity.NONE])
@pytest.mark.parametrize("name", ["auto", "downset-dp", "max-load-ip", "non-contiguous", "brute-force", "piper"])
def test_with_mixed_micro_batches_one_size_for_all_proves_nothing(name, contiguity):
    p = two_speeds(objective=Objective.MAX_LOAD, contiguity=contiguity)
    mixed = realise(p, Draft((DraftStage((0,), 4), DraftStage((1,), 1))))
    assert check(p, mixed) == ()
    assert judge(p, mixed).objective_s == 1.0
    if PLANNERS[name]().unsupported(p) is not None:
        pytest.skip("not for this contiguity")
    result = solve(p, name, time_limit_s=1)
    assert result.bound_s <= 1.0
    assert result.status is not Status.OPTIMAL or result.objective_s == 1.0


def test_with_one_number_of_micro_batches_mixed_sizes_change_nothing():
    p = replace(two_speeds(objective=Objective.MAX_LOAD), micro_batches=1)
    for planner in ("downset-dp", "brute-force", MaxLoadIP()):
        assert solve(p, planner).status is Status.OPTIMAL


@pytest.mark.parametrize("objective", [Objective.MAX_LOAD, Objective.ITERATION])
@pytest.mark.parametrize("pipeline", [Pipeline.GPIPE, Pipeline.ONE_F_ONE_B])
def test_the_oracle_recomputes_before_it_says_that_nothing_fits(pipeline, objective):
    """One device of 25 bytes, and four micro-batches of 20 bytes, all of them in flight under GPipe."""
    p = problem(
        training_graph([(0, 1)], 2, saved=10.0), [1] * 4, 1, memory=25.0, mini_batch=4, micro_batches=4,
        recompute=True, objective=objective, pipeline=pipeline,
    )  # fmt: skip
    everything = realise(p, Draft((DraftStage(tuple(range(4)), 1, recompute=True),)))
    assert judge(p, everything).feasible
    result = solve(p, "brute-force")
    assert result.status is not Status.INFEASIBLE
    assert result.objective_s <= judge(p, everything).objective_s


def test_the_oracle_claims_nothing_where_recomputation_may_make_room():
    """Some stage may have to recompute, or larger micro-batches may fit if it does."""
    p = problem(
        training_graph([(0, 1)], 2, saved=10.0), [1] * 4, 2, memory=15.0, mini_batch=4, micro_batches=None,
        recompute=True,
    )  # fmt: skip
    assert solve(p, "brute-force").status is Status.FEASIBLE
    roomy = problem(training_graph([(0, 1)], 2), [1] * 4, 2, mini_batch=4, micro_batches=None, recompute=True)
    assert math.isinf(roomy.cluster.devices[0].memory_bytes)
    assert solve(roomy, "brute-force").status is Status.OPTIMAL


@pytest.mark.parametrize("objective", [Objective.MAX_LOAD, Objective.ITERATION])
def test_replicas_that_take_whole_micro_batches_make_larger_ones_of_several(objective):
    """Of two micro-batches of 2 samples, each of two replicas takes one: the stage has a single one of 4."""
    p = problem(forward_graph([], 1), [1], 2, training=False, mini_batch=4, micro_batches=2, objective=objective)
    p = replace(p, compute=ComputeTable((1, 2, 4), {GPU: np.array([[3.0, 4.0, 5.0]])}), max_replicas=2)
    whole = Draft((DraftStage((0,), 4, replicas=2),))
    assert lower_bound_s(p) * (4 if objective is Objective.MAX_LOAD else 1) == 6.0
    p = replace(p, mixed_micro_batches=True)
    assert solve(p, "piper").plan == realise(p, whole)
    assert lower_bound_s(p) <= judge(p, realise(p, whole)).objective_s
    for name in ("downset-dp", "brute-force"):
        assert solve(p, name).bound_s <= judge(p, realise(p, whole)).objective_s


@pytest.mark.parametrize("objective", [Objective.MAX_LOAD, Objective.ITERATION])
def test_a_plan_with_another_number_of_micro_batches_than_the_problem_fixes_is_none(objective):
    """Whole, the mini-batch takes 5 s; in two it takes 8, which is optimal among what is asked for."""
    p = problem(forward_graph([], 1), [1], 2, training=False, mini_batch=4, micro_batches=2, objective=objective)
    p = replace(p, compute=ComputeTable((1, 2, 4), {GPU: np.array([[3.0, 4.0, 5.0]])}))
    whole = realise(p, Draft((DraftStage((0,), 4),)))
    assert check(p, whole) == ("stage 0 has 1 micro-batches, and 2 is asked for",)
    assert judge(p, whole).violation == "micro-batches of 4 samples: the mini-batch may be split into 2 of them"
    result = solve(p, "brute-force", start=whole)
    assert (result.status, result.plan.stages[0].micro_batch_size) == (Status.OPTIMAL, 2)


def test_any_number_of_micro_batches_is_a_power_of_two():
    p = problem(forward_graph([], 1), [1], 1, training=False, mini_batch=12, micro_batches=None)
    for size, fits in ((12, True), (6, True), (4, False), (3, True), (1, False)):
        plan = realise(p, Draft((DraftStage((0,), size),)))
        assert (judge(p, plan).feasible, check(p, plan) == ()) == (fits, fits)
