"""The in-flight rule of DAGs of stages, by hand and against what a schedule counts."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import judge
from solvers.evaluation.simulation import simulate
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Plan, parse_action
from solvers.planners.check import check
from solvers.problem.problem import ComputeTable, Contiguity, Objective, Pipeline, Problem, Transfers
from solvers.schedules.ordering.in_flight import in_flight_samples
from solvers.schedules.realise import realise
from tests.instances import GPU, problem, training_graph
from tests.random_problems import random_draft, random_problem

CHAIN = [{1}, {2}, {3}, set()]
FORK = [{1, 3}, {2}, {4}, {4}, set()]
"""0 -> (1 -> 2 | 3) -> 4."""


def test_a_chain_keeps_one_more_for_every_stage_that_follows():
    assert in_flight_samples(CHAIN, [2] * 4, [1] * 4, 100) == [8, 6, 4, 2]


def test_a_dag_keeps_as_many_as_stages_on_the_longest_path():
    assert in_flight_samples(FORK, [1] * 5, [1] * 5, 100) == [4, 3, 2, 2, 1]


def test_never_more_than_the_mini_batch():
    assert in_flight_samples(CHAIN, [2] * 4, [1] * 4, 6) == [6, 6, 4, 2]


def test_blocks_and_larger_micro_batches_need_more():
    assert in_flight_samples([{1}, set()], [1, 4], [1, 1], 100) == [8, 4]
    assert in_flight_samples([{1}, set()], [4, 1], [1, 1], 100) == [8, 1]
    assert in_flight_samples([{1}, set()], [3, 4], [1, 1], 100) == [9, 4]
    assert in_flight_samples(CHAIN, [1] * 4, [2] * 4, 100) == [8, 6, 4, 2]


def test_what_takes_no_time_adds_nothing_before_it():
    assert in_flight_samples(FORK, [1] * 5, [1] * 5, 100, weightless={4}) == [3, 2, 1, 1, 1]


def counted(p: Problem, plan: Plan) -> list[int]:
    """The most micro-batches of every stage whose forward has ended and whose backward has not, from the spans."""
    changes: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for span in simulate(p, plan, Objective.ITERATION).spans:
        if not span.is_transfer:
            action = parse_action(span.action)
            if span.device == plan.stages[action.stage].devices[0] and action.kind in "FB":
                changes[action.stage].append((span.end_s, 1 if action.kind == "F" else -1))
    most = []
    for stage in range(len(plan.stages)):
        level = peak = 0
        for _, change in sorted(changes[stage]):
            level += change
            peak = max(peak, level)
        most.append(peak)
    return most


@pytest.mark.parametrize("seed", range(150))
def test_the_rule_is_what_the_schedule_counts_and_nothing_deadlocks(seed):
    rng = random.Random(seed)
    p = random_problem(
        seed,
        objective=Objective.ITERATION,
        contiguity=Contiguity.ACYCLIC,
        transfers=Transfers.LINKS,
        pipeline=Pipeline.ONE_F_ONE_B,
        training=True,
    )
    p = replace(p, mini_batch=8, micro_batches=None, max_replicas=3, recompute=True, mixed_micro_batches=seed % 2 == 0)
    if len(p.cluster.accelerators) == 0:
        pytest.skip("the seed's cluster has no accelerator")
    draft = random_draft(rng, p)
    try:
        plan = realise(p, draft)
    except InvalidPlan:  # backward tensors that do not mirror forward ones: no order can run them
        return
    assert judge(p, plan).feasible == (not check(p, plan))
    alone = len({device for stage in plan.stages for device in stage.devices}) == sum(
        len(stage.devices) for stage in plan.stages
    )
    kinds = [
        {a.kind for d in stage.devices for a in plan.order[d] if a.stage == i} for i, stage in enumerate(plan.stages)
    ]
    for stage, most, has in zip(plan.stages, counted(p, plan), kinds, strict=True):
        if {"F", "B"} <= has:
            assert most <= stage.in_flight
            assert most == stage.in_flight or not alone


def three_stages(sizes: tuple[int, int, int]) -> tuple[Problem, Plan]:
    """GraphPipe's figure 5: stages in a row, at their fastest from 1, 2 and 4 samples a micro-batch on."""
    points = (1, 2, 4, 8, 16)
    forward = [[float(max(b, least)) for b in points] for least in (1, 2, 4)]
    times = np.array([*forward, *forward])
    p = problem(training_graph([(0, 1), (1, 2)], 3), [0.0] * 6, 3, objective=Objective.ITERATION, mini_batch=16)
    p = replace(p, compute=ComputeTable(points, {GPU: times}), mixed_micro_batches=True)
    stages = tuple(DraftStage((o, o + 3), size) for o, size in enumerate(sizes))
    return p, realise(p, Draft(stages))


def test_the_paper_s_three_stages_keep_ten_samples_in_place_of_twelve():
    """Figure 5: per-stage micro-batches of 1, 2 and 4 samples against 4 everywhere, and a shorter iteration."""
    assert in_flight_samples([{1}, {2}, set()], [1, 2, 4], [1] * 3, 100) == [10, 8, 4]
    assert in_flight_samples([{1}, {2}, set()], [4, 4, 4], [1] * 3, 100) == [12, 8, 4]
    took = []
    for sizes, samples in (((1, 2, 4), 10), ((4, 4, 4), 12)):
        p, plan = three_stages(sizes)
        assert counted(p, plan)[0] * sizes[0] == samples
        took.append(simulate(p, plan).makespan_s)
    # Every stage has 16 s forward and 16 s back. In fours the last one starts after two forwards of 4 s and is followed
    # by two backwards of 4 s. In 1, 2 and 4 samples it starts after the fourth sample of the first stage, and a pair of
    # the second: 4 + 2 s, and as much at the end.
    assert took == [pytest.approx(6 + 32 + 6), pytest.approx(8 + 32 + 8)]
