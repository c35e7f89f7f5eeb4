"""The planner of stages in a V, by itself and within `auto`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers.evaluation.evaluate import evaluate
from solvers.pipelines.planners.interleaved import Interleaved
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import IN_A_V, Contiguity, Pipeline
from tests.solvers.pipelines.test_pipelines import chain, uniform


@pytest.mark.parametrize("pipeline", [*IN_A_V, Pipeline.DUAL_PIPE, Pipeline.LOOPED_BFS])
def test_a_pipeline_of_several_stages_a_device_is_planned_as_it_is_named(pipeline: Pipeline) -> None:
    p, _ = uniform(8, 4, 8, pipeline=pipeline)
    if pipeline is Pipeline.DUAL_PIPE:
        p = replace(p, mini_batch=16, max_replicas=2)
    result = solve(p, "interleaved", time_limit_s=20)
    assert result.plan is not None
    assert result.plan.pipeline == pipeline.value
    assert check(p, result.plan) == ()
    assert len(result.plan.stages) > len(result.plan.devices_used()) or pipeline is Pipeline.DUAL_PIPE
    assert solve(p, "auto", time_limit_s=20).objective_s <= result.objective_s


@pytest.mark.parametrize("pipeline", [Pipeline.ZERO_BUBBLE, Pipeline.PLANNER])
def test_auto_looks_among_plans_in_a_v_where_the_order_is_left_open(pipeline: Pipeline) -> None:
    p, _ = uniform(8, 4, 4, pipeline=pipeline)
    named = solve(replace(p, pipeline=Pipeline.ZB_V), "interleaved").objective_s
    result = solve(p, "auto", time_limit_s=20)
    assert result.objective_s <= named
    assert result.plan is not None
    assert check(p, result.plan) == ()
    assert result.bound_s <= result.objective_s


def test_less_memory_is_never_answered_with_more_time_than_that_of_the_pattern_that_fits() -> None:
    unlimited, _ = uniform(12, 6, 12, pipeline=Pipeline.ZERO_BUBBLE, memory=1e9)
    for pipeline in (Pipeline.V_MIN, Pipeline.V_HALF, Pipeline.ZB_V):
        named = solve(replace(unlimited, pipeline=pipeline), Interleaved(improve=False))
        assert named.plan is not None
        needs = max(evaluate(named.problem, named.plan).peak_memory_bytes)
        cluster = replace(
            unlimited.cluster,
            devices=tuple(replace(device, memory_bytes=needs) for device in unlimited.cluster.devices),
        )
        result = solve(replace(unlimited, cluster=cluster), Interleaved(improve=False))
        assert result.objective_s <= named.objective_s


def test_a_v_may_leave_a_device_and_come_back_whatever_the_contiguity() -> None:
    p, _ = uniform(8, 4, 4, pipeline=Pipeline.ZB_V)
    assert p.contiguity is Contiguity.ACYCLIC
    assert p.by_stage
    assert not replace(p, pipeline=Pipeline.K_F_K_B).by_stage


def test_what_is_not_supported_is_refused_with_what_is() -> None:
    p, _ = uniform(6, 3, 4, pipeline=Pipeline.DUAL_PIPE)
    assert "--replicate 2" in (Interleaved().unsupported(p) or "")
    assert "dualpipe-v" in (Interleaved().unsupported(replace(p, max_replicas=2)) or "")
    inference = replace(p, graph=chain(6), pipeline=Pipeline.ZB_V)
    assert Interleaved().unsupported(inference) is None
