"""Problems at the edge: one operator, links that are missing, devices that differ, pins on operators without work."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds.cover.diagram import diagram_of
from solvers.bounds.cover.model import CoverModel
from solvers.bounds.cover.pricing import Pricing
from solvers.coarsening.coarsen import contract
from solvers.noncontiguous.planners.annealing_kernel import new_walk
from solvers.noncontiguous.planners.max_load_ip import MaxLoadIP
from solvers.noncontiguous.sets import sets_of
from solvers.plan.result import Status
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster, Link
from solvers.problem.problem import Contiguity, Execution, Objective, Transfers
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


def test_pricing_with_a_lane_and_no_compute_counts_no_bytes_as_compute():
    """Two groups of 5 bytes on devices of 7: one of them is worth 1, whatever it holds."""
    model = CoverModel(
        np.zeros(2), np.full(2, np.inf), np.ones(2, bool), np.full(2, 5.0), ((0, 1),), np.ones(1), 2, 0, 7.0, 0.0, True
    )
    assert Pricing(model, diagram_of(model, 2.0), 2.0).best(np.ones(2), 0.1).bound >= 1.0


@pytest.mark.parametrize("name", ["latency-ip", "latency-cp", "latency", "latency-search"])
def test_the_memory_of_two_cpus_is_not_that_of_one(name):
    """Two operators of 2 bytes, two CPUs of 3: one on each."""
    p = problem(
        forward_graph([], 2), [math.inf, math.inf], 1, cpus=2, cpu_seconds=[1.0, 2.0], objective=Objective.MAKESPAN,
        execution=Execution.CALL, transfers=Transfers.BLOCKING, training=False, subgraphs_per_device=1,
    )  # fmt: skip
    specs = tuple(replace(device, memory_bytes=3.0) for device in p.cluster.devices)
    p = replace(p, cluster=replace(p.cluster, devices=specs), stated_bytes=(2.0, 2.0))
    assert solve(p, "brute-force").objective_s == 2.0
    result = solve(p, name, time_limit_s=2)
    assert result.status is not Status.INFEASIBLE
    assert result.bound_s <= 2.0


def test_pricing_with_few_labels_ends_without_a_threshold():
    """Ten groups that trade load for worth: far more sets than labels. The bound is above any of them."""
    load_s, prices = np.arange(10.0, 20.0), np.sqrt(np.arange(10.0, 20.0))
    model = CoverModel(
        load_s, np.full(10, np.inf), np.ones(10, bool), np.zeros(10), (), np.zeros(0), 2, 0, np.inf, 0.0, False
    )
    priced = Pricing(model, diagram_of(model, 72.0), 72.0).best(prices, 0.0, 0.0, most=1)
    assert not priced.exact
    assert priced.bound >= prices[:5].sum()
    assert all(model.fits(inside, 72.0) for inside in priced.sets)
