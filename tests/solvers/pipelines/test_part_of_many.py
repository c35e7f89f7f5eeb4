"""Plans of a part of many devices: judged as the whole cluster judges them, and found for as many as there are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers.evaluation.evaluate import judge
from solvers.pipelines.part_of_many import parts_of_many
from solvers.planners.baselines import EqualSplit
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Device
from solvers.problem.links import LinkClass, Wire, tiers_of
from solvers.problem.problem import Problem
from solvers.search.effort import Effort
from solvers.search.monitor import Monitor
from tests.instances import problem as make
from tests.instances import training_graph

INSIDE, LATENCY_S = LinkClass(50.0, 0.01, Wire.PAIR), 0.002


def many(devices: int, each: int = 8, wire: Wire = Wire.NODES) -> Problem:
    """A chain of eight operators and as many samples as devices, in nodes."""
    specs = tuple(Device(f"GPU {i}", "gpu", node=i // each) for i in range(devices))
    between = LinkClass(4.0, LATENCY_S, wire)
    nodes = [spec.node for spec in specs]
    tiers = tiers_of(range(devices), nodes, [0] * devices, lambda _: INSIDE, lambda *_: between)
    graph = training_graph([(i, i + 1) for i in range(7)], 8, nbytes=0.5, param_bytes=3.0, saved=1.0)
    p = make(graph, [1, 2, 3, 1, 2, 2, 1, 4] * 2, mini_batch=devices, micro_batches=None, max_replicas=devices)
    return replace(p, cluster=Cluster(specs, tiers))


@pytest.mark.parametrize("wire", [Wire.NODES, Wire.PAIR])
def test_a_part_is_judged_as_all_devices_are(wire: Wire) -> None:
    problem, compared = many(128, wire=wire), 0
    for part in parts_of_many(problem):
        monitor = Monitor(part.question)
        EqualSplit()(part.question, monitor)
        for plan in (one.plan for one in monitor.front.beside(float("inf"), float("inf"))):
            whole = judge(problem, part.answer(plan))
            assert judge(part.question, plan).objective_s == pytest.approx(whole.objective_s, rel=1e-12)
            compared += 1
        assert monitor.best is not None
        whole = judge(problem, part.answer(monitor.best))
        assert monitor.objective_s == pytest.approx(whole.objective_s, rel=1e-12)
        assert monitor.judged is not None
        assert monitor.judged.peak_bytes == pytest.approx(whole.peak_bytes, rel=1e-12)
    assert len(parts_of_many(problem)) == 4


def test_gradients_of_a_stage_go_round_all_parts() -> None:
    problem = many(128)
    part = parts_of_many(problem)[0]
    alone = replace(part.question, repeats=type(part.question.repeats)())
    monitor = Monitor(alone)
    EqualSplit()(alone, monitor)
    assert monitor.best is not None
    assert judge(part.question, monitor.best).objective_s > monitor.objective_s


@pytest.mark.parametrize(
    ("devices", "sizes"), [(64, []), (72, [24, 8]), (96, [48, 32, 24, 16, 8]), (128, [64, 32, 16, 8])]
)
def test_parts_leave_no_device_idle_where_the_samples_allow(devices: int, sizes: list[int]) -> None:
    parts = parts_of_many(many(devices))
    assert [len(part.question.cluster) for part in parts] == sizes
    assert all(len(part.groups) * len(part.question.cluster) == devices for part in parts)
    assert all(part.question.mini_batch * len(part.groups) == devices for part in parts)


@pytest.mark.first(1)
@pytest.mark.parametrize("devices", [72, 128, 1_024])
def test_many_devices_have_an_answer_that_holds(devices: int) -> None:
    problem = many(devices)
    result = solve(problem, effort=Effort.QUICK)
    assert result.plan is not None
    assert check(problem, result.plan) == ()
    assert len(result.plan.devices_used()) > devices // 2
    assert any("times alike" in note for note in result.notes)
    assert 0 < result.bound_s <= result.objective_s
