"""Problems at the edge: one operator, links that are missing, devices that differ, pins on operators without work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from solvers.cluster import Cluster, Link
from solvers.coarsen import contract
from solvers.kernels.anneal import new_walk
from solvers.planners.max_load_ip import MaxLoadIP
from solvers.problem import Contiguity, Objective, Transfers
from solvers.result import Status
from solvers.sets import sets_of
from solvers.solve import solve
from tests.instances import devices, forward_graph, problem

MAX_LOAD = {"objective": Objective.MAX_LOAD, "contiguity": Contiguity.NONE, "transfers": Transfers.BLOCKING}


def test_annealing_one_operator_has_room_for_the_two_that_a_swap_draws():
    p = problem(forward_graph([], 1), [1.0], 2, **MAX_LOAD)
    walk = new_walk(sets_of(p, contract(p, 1)), np.zeros(1, np.int64), np.zeros(0, np.int64), seed=1)
    assert min(len(walk.moved), len(walk.to)) >= 2
    assert solve(p, "annealing", time_limit_s=5).objective_s == 1.0


def test_brute_force_tells_devices_apart_that_only_some_links_join():
    """Of two equal devices only the second can send to the first."""
    p = problem(forward_graph([(0, 1)], 2, nbytes=1.0), [3.0, 3.0], 2, training=False, **MAX_LOAD)
    p = replace(p, cluster=Cluster(devices(2), (Link(1, 0, 1.0),)))
    result = solve(p, "brute-force")
    assert (result.status, result.objective_s) == (Status.OPTIMAL, 4.0)
    assert result.plan is not None
    assert result.plan.placement() == {0: (1,), 1: (0,)}


def test_brute_force_replicates_on_devices_of_unequal_memory():
    """Both hold the operator; that one could hold more does not matter."""
    p = problem(forward_graph([], 1), [4.0], 2, mini_batch=2, max_replicas=2, training=False, **MAX_LOAD)
    first, second = devices(2)
    p = replace(p, cluster=replace(p.cluster, devices=(first, replace(second, memory_bytes=8.0))))
    result = solve(p, "brute-force")
    assert (result.status, result.objective_s) == (Status.OPTIMAL, 2.0)


@pytest.mark.parametrize("contiguity", [Contiguity.NONE, Contiguity.CONVEX])
def test_an_operator_without_work_does_not_take_its_neighbour_where_it_is_pinned(contiguity):
    """a -> b; a takes no time, but is pinned to the device of c, where b would wait for c."""
    p = problem(
        forward_graph([(0, 1)], 3, nbytes=1.0), [0.0, 3.0, 3.0], 2, pins={0: 1, 2: 1}, training=False,
        **(MAX_LOAD | {"contiguity": contiguity}),
    )  # fmt: skip
    assert solve(p, "brute-force").objective_s == 4.0
    result = solve(p, MaxLoadIP(start=False), time_limit_s=30)
    assert (result.status, result.objective_s) == (Status.OPTIMAL, pytest.approx(4.0))
