"""A plan of one question starts the search for the next: other devices, batches, features."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from solvers.errors import InvalidProblem
from solvers.plan.plan import Plan
from solvers.planners.carry import carried
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.cluster import uniform_cluster
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor
from tests.instances import devices, problem, training_graph
from tests.solvers.planners.test_solve import Scripted

CHAIN = [(i, i + 1) for i in range(5)]


def question(gpus: int, **options: object) -> Problem:
    return problem(
        training_graph(CHAIN, 6, nbytes=0.01, param_bytes=1.0), [1, 2, 3, 3, 2, 1] * 2, gpus,
        objective=Objective.ITERATION, **{"mini_batch": 8, "micro_batches": None, **options},
    )  # fmt: skip


def in_thirds(p: Problem) -> Plan:
    return assemble(p, [(0,), (0,), (1,), (1,), (2,), (2,)] * 2, 4)


def first(p: Problem, plan: Plan) -> Plan:
    return next(iter(carried(p, plan)))


def test_what_can_run_as_it_is_stays_as_it_is() -> None:
    p = question(3)
    assert first(p, in_thirds(p)) == in_thirds(p)


def test_more_devices_leave_those_of_the_plan_alone() -> None:
    adapted = first(question(5), in_thirds(question(3)))
    assert adapted.placement() == in_thirds(question(3)).placement()
    assert check(question(5), adapted) == ()


def test_fewer_devices_are_shared_by_neighbours() -> None:
    p = question(2)
    adapted = first(p, in_thirds(question(3)))
    assert [adapted.placement()[o] for o in range(6)] == [(0,), (0,), (0,), (0,), (1,), (1,)]
    assert check(p, adapted) == ()


def test_another_mini_batch_has_micro_batches_of_the_nearest_size() -> None:
    p = question(3, mini_batch=32)
    assert {stage.micro_batch_size for stage in first(p, in_thirds(question(3))).stages} == {2}
    p = question(3, mini_batch=7)
    assert {stage.micro_batch_size for stage in first(p, in_thirds(question(3))).stages} == {7}


def test_replicas_that_are_not_allowed_any_more_are_left_out() -> None:
    wide = question(4, max_replicas=2)
    plan = assemble(wide, [(0, 1)] * 3 + [(2, 3)] * 3 + [(0, 1)] * 3 + [(2, 3)] * 3, 4)
    p = question(4)
    fitting = [adapted for adapted in carried(p, plan) if check(p, adapted) == ()]
    assert fitting
    assert all(len(stage.devices) == 1 for adapted in fitting for stage in adapted.stages)


def test_a_plan_of_another_graph_is_refused_in_one_line() -> None:
    other = problem(training_graph(CHAIN[:2], 3), [1, 1, 1] * 2, 2, objective=Objective.ITERATION)
    with pytest.raises(InvalidProblem, match="holds 12 operators of another graph, and this one has 6") as caught:
        solve(other, start=in_thirds(question(3)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_carried_can_be_judged(seed: int) -> None:
    rng = random.Random(seed)
    source = question(rng.randint(1, 5), max_replicas=rng.choice([1, 3]), mini_batch=rng.choice([4, 8, 12]))
    plan = solve(source, rng.choice(["equal", "single", "linear-dp"])).plan
    assert plan is not None
    target = question(rng.randint(1, 5), max_replicas=rng.choice([1, 2]), mini_batch=rng.choice([3, 8, 16]))
    if rng.random() < 0.3:
        target = replace(target, objective=Objective.MAKESPAN)
    monitor = Monitor(target)
    assert any(math.isfinite(monitor.offer(adapted)) for adapted in carried(target, plan))
    assert solve(target, Scripted(), start=plan).plan is not None


def test_a_search_is_never_behind_its_start() -> None:
    p = question(2)
    start = in_thirds(question(3))
    carried_s = min(Monitor(p).offer(adapted) for adapted in carried(p, start))
    assert solve(p, "equal", start=start).objective_s <= carried_s
    same = replace(p, cluster=uniform_cluster(devices(2), 1.0))
    assert solve(same, start=start).objective_s <= carried_s


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_carried_is_split_and_ordered_as_the_question_asks(seed: int) -> None:
    rng = random.Random(seed)
    source = question(3, pipeline=rng.choice(list(Pipeline)))
    plan = solve(source, rng.choice(["equal", "linear-dp"])).plan
    assert plan is not None
    variant, count = rng.choice([Pipeline.GPIPE, Pipeline.ONE_F_ONE_B]), rng.choice([1, 2, 4, 8])
    for adapted in carried(question(3, micro_batches=count, pipeline=variant), plan):
        assert {stage.micro_batch_size for stage in adapted.stages} == {8 // count}
        assert adapted.pipeline == variant.value or (adapted.pipeline, variant) == ("custom", Pipeline.ONE_F_ONE_B)
        assert not any(action.kind == "W" for row in adapted.order for action in row)
