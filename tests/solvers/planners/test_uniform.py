"""Plans with the same number of replicas of every stage are made of one pipeline, and judged as they are."""

from __future__ import annotations

import math

import numpy as np
import pytest

from solvers.evaluation.evaluate import evaluate
from solvers.planners.uniform import uniform_degrees, uniform_plan
from solvers.problem.cluster import Device, two_level_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Objective, Problem

LAYERS = 8
PARAM_BYTES = 100.0


def problem(devices: int = 4, memory_bytes: float = 1e9, zero: int = 0) -> Problem:
    """A chain of layers that train, in nodes of two devices."""
    forward = [Operator(f"f{i}", param_bytes=PARAM_BYTES) for i in range(LAYERS)]
    backward = [Operator(f"b{i}", phase=Phase.BACKWARD_WEIGHT, forward_of=i) for i in reversed(range(LAYERS))]
    update = [Operator(f"u{i}", phase=Phase.UPDATE, forward_of=i) for i in range(LAYERS)]
    chain = [Tensor(i, (i + 1,), Amount(0, 1.0)) for i in range(2 * LAYERS - 1)]
    gradients = [Tensor(2 * LAYERS - 1 - i, (2 * LAYERS + i,), Amount(PARAM_BYTES)) for i in range(LAYERS)]
    graph = OpGraph((*forward, *backward, *update), (*chain, *gradients), samples=1)
    gpus = [Device(f"G{i}", "k", memory_bytes, node=i // 2) for i in range(devices)]
    times = ComputeTable((1, 2), {"k": np.array([[1e-3, 2e-3]] * len(graph))})
    return Problem(
        graph, two_level_cluster(gpus, 1e9, 0.0, 1e8, 0.0), times, objective=Objective.ITERATION, mini_batch=8,
        max_replicas=devices, training=True, zero=zero,
    )  # fmt: skip


def test_degrees_use_every_device() -> None:
    assert uniform_degrees(problem()) == [(1, 4), (2, 2), (4, 1)]


@pytest.mark.parametrize("degrees", [(1, 4), (2, 2), (4, 1)])
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_a_row_is_what_its_plan_is(degrees: tuple[int, int], zero: int) -> None:
    question = problem(zero=zero)
    row, plan = uniform_plan(question, *degrees, 60.0)
    assert plan is not None
    assert {len(stage.devices) for stage in plan.stages} == {degrees[0]}
    metrics = evaluate(question, plan)
    assert row.objective_s == metrics.iteration_s
    assert row.peak_bytes == max(metrics.peak_memory_bytes)


def test_replicas_that_share_states_fit_where_those_that_hold_all_do_not() -> None:
    """Adam holds four times the parameters; of ZeRO-3 each of four replicas holds a quarter."""
    cap = LAYERS * PARAM_BYTES * 2
    alone, without = uniform_plan(problem(memory_bytes=cap), 4, 1, 60.0)
    shared, plan = uniform_plan(problem(memory_bytes=cap, zero=3), 4, 1, 60.0)
    assert without is None
    assert "the fullest device needs" in alone.reason
    assert alone.objective_s == math.inf
    assert plan is not None
    assert shared.peak_bytes <= cap


def test_samples_that_replicas_cannot_share_are_said() -> None:
    row, plan = uniform_plan(problem(devices=16), 16, 1, 60.0)
    assert plan is None
    assert "cannot be shared by 16 replicas" in row.reason
