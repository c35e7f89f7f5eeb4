"""Frozen parameters are held once, and their gradients are nowhere: not in memory, not between replicas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import evaluate
from solvers.evaluation.simulation import simulate, static_bytes_per_device
from solvers.problem.graph import Operator, OpGraph
from solvers.problem.problem import Objective, Optimizer, Problem
from solvers.problem.static_sizes import static_sizes
from solvers.schedules.assemble import assemble
from solvers.verify import verify
from tests.instances import problem, training_graph


def partly_frozen(replicas: int, frozen_bytes: float = 6.0, **options: object) -> Problem:
    """One operator of 9 bytes of parameters, 2 s forward and 2 s backward per sample."""
    graph = training_graph([], 1, param_bytes=9.0)
    owner = replace(graph.operators[0], frozen_bytes=frozen_bytes)
    graph = OpGraph((owner, *graph.operators[1:]), graph.tensors)
    return problem(graph, [2, 2], replicas, mini_batch=2, max_replicas=replicas, **options)


@pytest.mark.parametrize(
    ("optimizer", "expected"), [(Optimizer.ADAM, 4 * 3 + 6), (Optimizer.SGD, 2 * 3 + 6), (Optimizer.NONE, 9)]
)
def test_what_is_frozen_is_held_once_and_the_rest_with_its_gradient_and_states(optimizer, expected):
    p = partly_frozen(1, optimizer=optimizer)
    plan = assemble(p, [(0,), (0,)], 1)
    assert p.static_bytes().tolist() == [expected, 0]
    assert static_bytes_per_device(p, plan).tolist() == [expected]
    assert static_sizes(p) == (expected, 0)
    assert evaluate(p, plan).static_bytes == (expected,)
    assert verify(p, plan, simulate(p, plan)) == ()


def test_in_inference_all_parameters_are_held_once():
    p = partly_frozen(1, training=False)
    assert p.static_bytes().tolist() == [9, 0]


def test_replicas_add_up_the_gradients_of_what_is_trained_alone():
    """Each of 2 replicas takes 1 sample: F 0-2, B 2-4; then 2(r-1)/r of 3 bytes round the ring: 4-7. Were all 9
    bytes trained, 4-13."""
    p = partly_frozen(2)
    plan = assemble(p, [(0, 1), (0, 1)], 1)
    assert simulate(p, plan).makespan_s == 7
    assert evaluate(p, plan).load_s == (2 + 1.5, 2 + 1.5)
    assert verify(p, plan, simulate(p, plan)) == ()


def test_replicas_of_frozen_parameters_alone_send_each_other_nothing():
    p = partly_frozen(2, frozen_bytes=9.0)
    plan = assemble(p, [(0, 1), (0, 1)], 1)
    schedule = simulate(p, plan)
    assert schedule.makespan_s == 4
    assert {span.resource for span in schedule.spans} == {"device 0", "device 1"}


def test_verify_refuses_a_schedule_that_trains_what_is_frozen():
    p, q = partly_frozen(2), partly_frozen(2, frozen_bytes=0.0)
    plan = assemble(p, [(0, 1), (0, 1)], 1)
    assert any("bytes" in finding for finding in verify(p, plan, simulate(q, plan)))


def test_planners_find_room_where_only_frozen_parameters_make_room():
    """18 bytes fit where 36 would not."""
    from solvers.plan.result import Status
    from solvers.planners.solve import solve

    options = {"memory": 20.0, "objective": Objective.ITERATION}
    assert solve(partly_frozen(1, **options), time_limit_s=5).plan is not None
    assert solve(partly_frozen(1, frozen_bytes=0.0, **options), time_limit_s=5).status is Status.INFEASIBLE


@pytest.mark.parametrize("frozen_bytes", [-1.0, 9.5, float("nan")])
def test_more_cannot_be_frozen_than_there_is(frozen_bytes):
    with pytest.raises(InvalidProblem, match="frozen_bytes"):
        OpGraph((Operator("a", param_bytes=9.0, frozen_bytes=frozen_bytes),), ())


def test_the_bytes_of_gradients_are_what_is_not_frozen():
    assert Operator("a", param_bytes=9.0, frozen_bytes=6.0).trained_bytes == 3.0
    assert np.isclose(Operator("a", param_bytes=9.0).trained_bytes, 9.0)
