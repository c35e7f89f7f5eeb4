"""Plans with the same number of replicas of every stage are made of one pipeline, and judged as they are."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from solvers.evaluation.evaluate import evaluate
from solvers.planners import portfolio
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.planners.uniform import plain_splits, uniform_degrees, uniform_plan
from solvers.problem.cluster import Device, two_level_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Objective, Pipeline, Problem
from solvers.search.effort import Effort
from solvers.search.monitor import Monitor
from tests.layered_models import layered

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


def test_samples_that_replicas_cannot_share_are_reported() -> None:
    row, plan = uniform_plan(problem(devices=16), 16, 1, 60.0)
    assert plan is None
    assert "cannot be shared by 16 replicas" in row.reason


def layers(memory_bytes: float = 1e9, count: int = 16, devices: int = 4, **options: object) -> Problem:
    """Equal layers on a pipeline of devices, whose bubble is large: 8 samples."""
    return layered(count, devices=devices, memory=memory_bytes, mini_batch=8, micro_batches=None, **options)


@pytest.mark.parametrize("pipeline", [Pipeline.INTERLEAVED, Pipeline.PLANNER, Pipeline.LOOPED_BFS])
def test_where_devices_may_have_several_stages_the_bubble_of_a_split_is_shorter(pipeline: Pipeline) -> None:
    one, plain = uniform_plan(layers(), 1, 4, 60.0)
    question = replace(layers(), pipeline=pipeline)
    row, plan = uniform_plan(question, 1, 4, 60.0)
    assert plain is not None
    assert plan is not None
    assert len(plain.stages) == 4
    assert len(plan.stages) == 16
    assert [stage.devices for stage in plan.stages] == [(number % 4,) for number in range(16)]
    assert check(question, plan) == ()
    judged = evaluate(question, plan)
    assert row.objective_s == judged.iteration_s < 0.85 * one.objective_s
    assert row.peak_bytes == max(judged.peak_memory_bytes)
    assert judged.bubble < evaluate(layers(), plain).bubble / 2


@pytest.mark.parametrize("pipeline", [Pipeline.K_F_K_B, Pipeline.GPIPE, Pipeline.ZERO_BUBBLE])
def test_a_device_of_any_other_pipeline_has_one_stage(pipeline: Pipeline) -> None:
    _, plan = uniform_plan(replace(layers(), pipeline=pipeline), 1, 4, 60.0)
    assert plan is not None
    assert len(plan.stages) == 4


@pytest.mark.parametrize("memory_bytes", [305.0, 275.0, 250.0, 230.0])
@pytest.mark.parametrize("replicas", [1, 2])
def test_as_few_stages_run_again_as_memory_asks_for(memory_bytes: float, replicas: int) -> None:
    """Several stages hold more than one; the first ones of every device run again, and the plan is no slower than with
    one stage a device."""
    again = layers(memory_bytes, devices=4 * replicas, recompute=True, max_replicas=replicas)
    one, _ = uniform_plan(again, replicas, 4, 60.0)
    question = replace(again, pipeline=Pipeline.INTERLEAVED)
    row, plan = uniform_plan(question, replicas, 4, 60.0)
    assert plan is not None
    assert check(question, plan) == ()
    assert row.peak_bytes <= memory_bytes
    assert row.objective_s <= one.objective_s
    run_again = [stage.recompute for stage in plan.stages]
    assert run_again == sorted(run_again, reverse=True)
    if memory_bytes == 275.0:
        assert len(plan.stages) > 4
        assert 0 < sum(run_again) < len(run_again)


def test_too_few_layers_leave_a_device_one_stage() -> None:
    _, plan = uniform_plan(replace(layers(count=5), pipeline=Pipeline.INTERLEAVED), 1, 4, 60.0)
    assert plan is not None
    assert len(plan.stages) == 4


@pytest.mark.slow
def test_auto_begins_with_such_splits_of_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every number of replicas, and the answer is none that is slower."""
    question = replace(layers(devices=8, max_replicas=8, count=8), pipeline=Pipeline.INTERLEAVED)
    monkeypatch.setattr(portfolio, "LARGE", 20)
    splits = Monitor(question)
    plain_splits(question, splits)
    assert splits.best is not None
    assert {len(stage.devices) for stage in splits.best.stages} != {8}
    assert max(Counter(stage.devices for stage in splits.best.stages).values()) > 1
    assert solve(question, effort=Effort.QUICK).objective_s <= splits.objective_s


@pytest.mark.slow
def test_auto_is_not_behind_plain_splits_of_divided_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those with one stage a device, too, where the model is over groups; of others it begins as it did."""
    whole = layers(devices=8, max_replicas=8, count=8)
    divided = replace(whole, graph=replace(whole.graph, tensor_parallel=2))
    monkeypatch.setattr(portfolio, "LARGE", 20)
    splits = Monitor(divided)
    plain_splits(divided, splits)
    rows = [uniform_plan(divided, *degrees, 60.0)[0] for degrees in uniform_degrees(divided)]
    assert splits.objective_s == min(row.objective_s for row in rows)
    assert solve(divided, effort=Effort.QUICK, time_limit_s=10).objective_s <= splits.objective_s
    none = Monitor(whole)
    plain_splits(whole, none)
    assert none.best is None
