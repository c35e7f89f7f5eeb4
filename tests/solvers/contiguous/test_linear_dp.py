"""The linearised dynamic program: exact on a chain, deterministic, and a plan for every choice."""

from __future__ import annotations

import pytest

from solvers.contiguous.planners.chain_dp import LinearDP
from solvers.plan.result import Status
from solvers.planners.brute_force import BruteForce
from solvers.planners.solve import solve
from solvers.problem.problem import Objective, Transfers
from solvers.search.monitor import Monitor
from tests.instances import forward_graph, problem, training_graph
from tests.solvers.msr_instances import as_problem, needs_workloads, published, references


@pytest.mark.parametrize("seconds", [[1, 2, 3, 4, 5], [5, 1, 1, 1, 5], [2, 2, 9, 2, 2]])
def test_a_chain_has_one_order_so_its_cut_is_optimal(seconds):
    p = problem(
        forward_graph([(0, 1), (1, 2), (2, 3), (3, 4)], 5, nbytes=1.0),
        seconds,
        3,
        bandwidth=4.0,
        objective=Objective.MAX_LOAD,
        transfers=Transfers.BLOCKING,
        training=False,
    )
    assert solve(p, LinearDP()).objective_s == pytest.approx(solve(p, BruteForce()).objective_s)


def test_a_training_chain_is_cut_at_every_number_of_micro_batches_and_the_best_is_kept():
    graph = training_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=0.01)
    p = problem(graph, [1] * 8, 4, objective=Objective.ITERATION, mini_batch=8, micro_batches=None)
    result = solve(p, LinearDP())
    assert result.plan.stages[0].micro_batch_size == 1
    assert len(result.plan.stages) == 4


def test_two_runs_give_the_same_plan():
    p = problem(
        training_graph([(0, 1), (0, 2), (1, 3), (2, 3)], 4, nbytes=1.0),
        [2, 1, 3, 1] * 2,
        3,
        objective=Objective.ITERATION,
        mini_batch=4,
        micro_batches=None,
    )
    assert solve(p, LinearDP()).plan == solve(p, LinearDP()).plan


def test_a_graph_that_fits_nowhere_gets_no_plan_and_no_claim():
    p = problem(training_graph([(0, 1)], 2, param_bytes=10.0), [1] * 4, 2, memory=15.0)
    monitor = Monitor(p)
    assert LinearDP()(p, monitor) is False
    assert monitor.best is None


def test_cpus_take_what_no_accelerator_holds():
    graph = forward_graph([(0, 1)], 2, param_bytes=10.0)
    p = problem(graph, [1, 1], 1, cpus=1, cpu_seconds=[5, 6], memory=10.0, objective=Objective.MAX_LOAD, training=False)
    result = solve(p, LinearDP())
    assert result.plan.placement() == {0: (1,), 1: (0,)}
    assert result.objective_s == pytest.approx(5.0)


@needs_workloads
@pytest.mark.parametrize("name", references())
def test_published_workloads_are_within_one_percent_of_the_optimum(name):
    result = solve(as_problem(published(name)), LinearDP())
    ratio = result.objective_s * 1e3 / references()[name]["contiguous_optimum"]
    assert 1 - 1e-9 <= ratio <= 1.01
    assert result.status in (Status.FEASIBLE, Status.OPTIMAL)
