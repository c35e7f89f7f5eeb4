"""Why nothing fits: the operator that no device holds, its size, and what would divide it."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import pytest

from solvers.bounds.combinatorial import memory_need, proved_infeasible, saved_at_once
from solvers.errors import InvalidPlan
from solvers.evaluation import simulation
from solvers.plan.result import Status
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Objective, Optimizer
from solvers.schedules.assemble import assemble
from tests.instances import forward_graph, problem, training_graph
from tests.random_problems import random_placement, random_problem, with_random_regions

GIB = 2**30


def test_the_one_operator_that_no_device_holds_is_named_with_its_size_and_what_divides_it():
    """30 GiB of parameters of `a` are 120 with gradients and Adam's states."""
    p = problem(training_graph([], 1, param_bytes=30.0 * GIB), [1, 1], memory=80.0 * GIB)
    shown = proved_infeasible(p)
    assert shown.startswith("every plan needs at least 120.0 GiB on some device (the parameters of operator a,")
    assert "are 120.0 GiB" in shown
    assert "each expert or slice of its weight a module of its own" in shown
    assert "an optimizer with fewer states" in shown


def test_in_inference_no_optimizer_is_blamed():
    p = problem(training_graph([], 1, param_bytes=90.0 * GIB), [1, 1], memory=80.0 * GIB, training=False)
    assert "the parameters of operator a are 90.0 GiB" in proved_infeasible(p)
    assert "optimizer" not in proved_infeasible(p)


def test_operators_that_share_a_device_are_blamed_together_where_none_is_most_of_it():
    """What `a` saves is more than its parameters, and its backward must be beside it."""
    p = problem(training_graph([], 1, param_bytes=1.0, saved=9.0), [1, 1], optimizer=Optimizer.NONE)
    assert memory_need(p).because == "these operators must share one device"


@pytest.mark.parametrize("contiguity", Contiguity)
def test_what_one_pass_saves_for_its_backward_is_there_at_one_time_wherever_it_is(contiguity: Contiguity) -> None:
    """Each operator fits anywhere, but 4 times 10 GiB are there when the first backward begins."""
    graph = training_graph([(0, 1), (1, 2), (2, 3)], 4, saved=10.0 * GIB)
    p = problem(graph, [1] * 8, memory=15.0 * GIB, objective=Objective.MAKESPAN, contiguity=contiguity)
    assert proved_infeasible(p) == (
        "every plan needs at least 20.0 GiB on some device (all operators together, spread over 2 devices: 40.0 GiB of"
        " 40.0 GiB are activations saved for the backward of 1 samples)"
    )
    assert solve(p).status is Status.INFEASIBLE
    assert proved_infeasible(replace(p, recompute=True)) is None


def test_only_what_every_backward_waits_for_is_counted_at_one_time() -> None:
    """The backward of `b` does not wait for `c`, nor that of `c` for `b`."""
    graph = training_graph([(0, 1), (0, 2)], 3, saved=1.0)
    assert saved_at_once(graph) == {0}
    assert saved_at_once(training_graph([(0, 1), (1, 2)], 3)) == {0, 1, 2}
    assert saved_at_once(forward_graph([(0, 1)], 2)) == frozenset()


@pytest.mark.parametrize("objective", [Objective.MAKESPAN, Objective.ITERATION])
@pytest.mark.parametrize("seed", range(40))
def test_no_drawn_plan_needs_less(seed: int, objective: Objective) -> None:
    """On the fullest device, whatever set of operators each holds."""
    p = random_problem(seed, 6, objective=objective, contiguity=Contiguity.NONE)
    if seed % 2 and p.has_backward():
        p = with_random_regions(p, seed)
    rng = random.Random(seed)
    need = memory_need(p).nbytes
    for _ in range(5):
        with suppress(InvalidPlan):
            plan = assemble(p, random_placement(rng, p), rng.choice(p.micro_batch_choices()))
            peaks = simulation.run(p, plan).peak_bytes()
            assert need <= max(peaks[d] for d in p.cluster.accelerators) * (1 + 1e-9)
