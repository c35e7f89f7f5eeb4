"""What does not fit is reported by `judge` in a sentence or by a status, and never raised by a planner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers.bounds.combinatorial import proved_infeasible
from solvers.errors import InvalidProblem
from solvers.evaluation.evaluate import judge
from solvers.evaluation.simulation import simulate
from solvers.plan.result import Status
from solvers.planners.check import check
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import Contiguity, Objective, Transfers
from solvers.schedules.assemble import assemble
from solvers.search.effort import Effort
from tests.instances import forward_graph, problem, training_graph

MANY = 1010
"""Operators, more than Python nests calls."""


def one_way(**options):
    """a -> b on two devices, with a link from 1 to 0 only."""
    p = problem(forward_graph([(0, 1)], 2, nbytes=1.0), [3, 3], 2, training=False, **options)
    return replace(p, cluster=Cluster(p.cluster.devices, p.cluster.links[1:]))


@pytest.mark.parametrize("stated", [None, (1.0, 1.0)])
@pytest.mark.parametrize("objective", list(Objective))
def test_a_plan_that_needs_a_missing_link_does_not_fit(objective, stated):
    p = one_way(objective=objective, stated_bytes=stated, transfers=Transfers.BLOCKING)
    assert "link" in judge(p, assemble(p, [(0,), (1,)], 1)).violation
    assert judge(p, assemble(p, [(1,), (0,)], 1)).feasible


def test_cpus_need_a_link_too():
    graph = forward_graph([(0, 1)], 2, nbytes=1.0)
    p = problem(graph, [3, 3], 0, cpus=2, training=False, objective=Objective.MAX_LOAD, stated_bytes=(1.0, 1.0))
    p = replace(p, cluster=Cluster(p.cluster.devices, ()))
    assert "link" in judge(p, assemble(p, [(0,), (1,)], 1)).violation


@pytest.mark.parametrize("name", list(PLANNERS))
def test_no_planner_raises_when_links_are_missing(name):
    p = one_way()
    if PLANNERS[name]().unsupported(p) is None:
        assert solve(p, name).status is not Status.INFEASIBLE


def tied(**options):
    """a and c must share a device; b is between them."""
    graph = OpGraph(
        (Operator("a", colocation="x"), Operator("b"), Operator("c", colocation="x")),
        (Tensor(0, (1,)), Tensor(1, (2,))),
    )
    return problem(graph, [1, 1, 1], 2, training=False, contiguity=Contiguity.NONE, **options)


def test_a_plan_that_parts_co_located_operators_does_not_fit():
    p = tied()
    assert judge(p, assemble(p, [(0,), (0,), (1,)], 1)).violation == "operators 'a' and 'c' must share a device"


def test_a_pin_takes_co_located_operators_along():
    p = tied(pins={2: 1})
    plan = solve(p, "equal").plan
    assert plan is not None
    assert plan.placement()[0] == plan.placement()[2] == (1,)


def test_contradicting_pins_of_co_located_operators_are_infeasible():
    p = tied(pins={0: 0, 2: 1})
    assert proved_infeasible(p) == "operators 'a' and 'c' must share a device, but are pinned to 0 and 1"
    assert {solve(p, name).status for name in ("auto", "equal", "brute-force")} == {Status.INFEASIBLE}


def test_co_located_operators_that_no_device_can_all_run_are_infeasible():
    p = tied(cpus=1, cpu_seconds=[float("inf"), 1, 1])
    p.compute.seconds["gpu"][2] = float("inf")
    assert "cannot all run on any one device" in str(proved_infeasible(p))


def test_one_message_has_one_transfer_time():
    graph = training_graph([(0, 1), (0, 2)], 3, nbytes=1.0)
    with pytest.raises(InvalidProblem, match="travel as one message"):
        problem(graph, [1] * 6, transfer_s=tuple(float(i) for i in range(len(graph.tensors))))


def test_what_is_held_for_no_time_counts():
    """One operator that takes 0 s: 4 copies of 1 parameter byte and 10 saved bytes."""
    p = problem(training_graph([], 1, param_bytes=1.0, saved=10.0), [0, 0], 1, memory=13.0)
    plan = assemble(p, [(0,), (0,)], 1)
    assert simulate(p, plan).peak_bytes() == (14.0,)
    assert simulate(p, plan).memory[0].nbytes[-1] == 4.0
    assert not judge(p, plan).feasible


def test_a_backward_operator_without_a_forward_one_counts_for_convexity():
    """f1 -> f2 with f1' on 0; f2' -> o' -> f1' with o' on 1: the mirrored path leaves 0 and returns."""
    operators = (
        Operator("f1"), Operator("f2"), Operator("f1'", phase=Phase.BACKWARD_INPUT, forward_of=0),
        Operator("f2'", phase=Phase.BACKWARD_INPUT, forward_of=1), Operator("o'", phase=Phase.BACKWARD_INPUT),
    )  # fmt: skip
    graph = OpGraph(operators, (Tensor(0, (1,), Amount(0, 1)), Tensor(3, (4,)), Tensor(4, (2,))))
    p = problem(graph, [1] * 5, 2, contiguity=Contiguity.CONVEX)
    for placement in ([(0,), (0,), (0,), (0,), (1,)], [(0,)] * 5, [(0,), (1,), (0,), (1,), (1,)]):
        plan = assemble(p, placement, 1)
        assert judge(p, plan).feasible == (not check(p, plan))


@pytest.mark.parametrize("name", list(PLANNERS))
@pytest.mark.parametrize(("gpus", "cpus"), [(1, 0), (0, 1)])
def test_one_device_takes_any_number_of_operators(name, gpus, cpus):
    graph = OpGraph(tuple(Operator(f"o{i}") for i in range(MANY)), ())
    p = problem(graph, [1.0] * MANY, gpus, cpus=cpus, training=False, objective=Objective.MAX_LOAD)
    if PLANNERS[name]().unsupported(p) is None:
        result = solve(p, name, effort=Effort.QUICK)
        if not any("gives up" in note for note in result.notes):  # a limit that it is published with
            assert result.objective_s == MANY
