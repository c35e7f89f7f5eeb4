"""Groups of several sizes: parts planned by themselves and joined, never better than what is possible, always valid."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.errors import InvalidPlan
from solvers.pipelines.group_sizes import group_sizes, joined, of_size
from solvers.plan.plan import Plan
from solvers.planners.baselines import EqualSplit
from solvers.planners.brute_force import BruteForce
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import Phase
from solvers.problem.problem import ComputeTable, Problem
from solvers.search.effort import Effort
from tests.instances import training_graph

SIZES = (2, 2, 1)
"""Of the groups."""


def in_parts(seed: int, operators: int = 6, memory: float = 1e9) -> Problem:
    """A chain with branches, whose first operators are divided over 2 and the others whole, on two groups of 2 and one
    device."""
    chance = random.Random(seed)
    edges = [(i, i + 1) for i in range(operators - 1)]
    edges += [(a, b) for a, b in ((0, 2), (1, 4)) if chance.random() < 0.5]
    graph = training_graph(edges, operators, nbytes=chance.choice((0.1, 1.0)), param_bytes=1.0, saved=1.0)
    cut = chance.randint(2, operators - 2)
    members = [2 if (o.forward_of if o.forward_of is not None else at) < cut else 1
               for at, o in enumerate(graph.operators)]  # fmt: skip
    own = tuple(replace(o, members=m) for o, m in zip(graph.operators, members, strict=True))
    graph = replace(graph, operators=own, tensor_parallel=2)
    devices = [Device(f"G{i}", f"k x{size}", memory, members=size) for i, size in enumerate(SIZES)]
    seconds = np.array([chance.uniform(1, 4) for _ in own])[:, None]
    table = {f"k x{size}": np.where(np.array(members)[:, None] == size, seconds, np.inf) for size in (2, 1)}
    cluster = uniform_cluster(devices, 10.0)
    return Problem(graph, cluster, ComputeTable((1,), table), mini_batch=4, micro_batches=4)


@pytest.mark.parametrize("seed", range(12))
def test_auto_keeps_each_part_on_its_groups_and_is_near_the_best(seed: int) -> None:
    problem = in_parts(seed)
    result = solve(problem, "auto", effort=Effort.QUICK)
    assert result.plan is not None
    assert check(problem, result.plan) == ()
    for stage in result.plan.stages:
        for device in stage.devices:
            assert {problem.graph.degrees[operator] for operator in stage.operators} == {SIZES[device]}
    best = solve(problem, BruteForce())
    assert best.objective_s * (1 - 1e-9) <= result.objective_s <= best.objective_s * 1.15
    assert result.bound_s <= best.objective_s * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_parts_have_all_operators_and_join_to_a_valid_plan(seed: int) -> None:
    problem = in_parts(seed)
    assert group_sizes(problem) == [2, 1]
    parts = [of_size(problem, size, 4, 1.0) for size in (2, 1)]
    assert sorted(at for part in parts for at in part.operators) == list(range(len(problem.graph)))
    plans: list[tuple[object, Plan]] = []
    for part in parts:
        plan = solve(part.question, EqualSplit()).plan
        assert plan is not None
        plans.append((part, plan))
    plan = joined(problem, plans)  # type: ignore[arg-type]
    assert check(problem, plan) == ()


def test_parts_with_other_micro_batches_do_not_join() -> None:
    problem = replace(in_parts(0), micro_batches=None)
    plans = []
    for size, count in ((2, 4), (1, 2)):
        part = of_size(problem, size, count, 1.0)
        plan = solve(part.question, EqualSplit()).plan
        assert plan is not None
        plans.append((part, plan))
    with pytest.raises(InvalidPlan, match="different sizes"):
        joined(problem, plans)


def test_what_cannot_be_planned_in_parts_is_left_to_others() -> None:
    problem = in_parts(0)
    assert group_sizes(replace(problem, pins={0: 0})) == []
    same = tuple(replace(device, members=0) for device in problem.cluster.devices)
    assert group_sizes(replace(problem, cluster=replace(problem.cluster, devices=same))) == []


@pytest.mark.slow
def test_memory_that_a_part_does_not_know_of_is_left_free() -> None:
    """The first part has more micro-batches in flight where the second follows it than by itself."""
    plans = 0
    for seed in range(8):
        for memory in (16.0, 20.0, 24.0):
            problem = in_parts(seed, memory=memory)
            result = solve(problem, "auto", effort=Effort.QUICK)
            best = solve(problem, BruteForce())
            assert (result.objective_s < math.inf) == (best.objective_s < math.inf)
            plans += result.plan is not None
            if result.plan is not None:
                assert check(problem, result.plan) == ()
    assert plans > 8


def test_a_backward_stands_with_its_forward() -> None:
    graph = in_parts(0).graph
    for operator, degree in zip(graph.operators, graph.degrees, strict=True):
        if operator.phase is not Phase.FORWARD:
            assert operator.forward_of is not None
            assert degree == graph.degrees[operator.forward_of]


def test_a_stage_on_a_group_of_another_size_is_refused() -> None:
    problem = in_parts(0)
    plan = solve(problem, "auto", effort=Effort.QUICK).plan
    assert plan is not None
    for number, stage in enumerate(plan.stages):
        wrong = next(at for at, size in enumerate(SIZES) if size != SIZES[stage.devices[0]])
        stages = (*plan.stages[:number], replace(stage, devices=(wrong,)), *plan.stages[number + 1 :])
        assert any("cannot run" in line for line in check(problem, replace(plan, stages=stages)))
