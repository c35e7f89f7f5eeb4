"""Why nothing fits: the operator that no device holds, its size, and what would divide it."""

from __future__ import annotations

from solvers.bounds.combinatorial import memory_need, proved_infeasible
from solvers.problem.problem import Optimizer
from tests.instances import problem, training_graph

GIB = 2**30


def test_the_one_operator_that_no_device_holds_is_named_with_its_size_and_what_divides_it():
    """30 GiB of parameters of `a` are 120 with gradients and Adam's states."""
    p = problem(training_graph([], 1, param_bytes=30.0 * GIB), [1, 1], memory=80.0 * GIB)
    told = proved_infeasible(p)
    assert told.startswith("every plan needs at least 120.0 GiB on some device (the parameters of operator a,")
    assert "are 120.0 GiB" in told
    assert "each expert or slice of its weight a module of its own" in told
    assert "an optimizer with fewer states" in told


def test_in_inference_no_optimizer_is_blamed():
    p = problem(training_graph([], 1, param_bytes=90.0 * GIB), [1, 1], memory=80.0 * GIB, training=False)
    assert "the parameters of operator a are 90.0 GiB" in proved_infeasible(p)
    assert "optimizer" not in proved_infeasible(p)


def test_operators_that_share_a_device_are_blamed_together_where_none_is_most_of_it():
    """What `a` saves is more than its parameters, and its backward must be beside it."""
    p = problem(training_graph([], 1, param_bytes=1.0, saved=9.0), [1, 1], optimizer=Optimizer.NONE)
    assert memory_need(p).because == "these operators must share one device"
