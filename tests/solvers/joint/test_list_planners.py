"""Baechi's planners, HEFT and the layer split: what they offer is judged, fits, and comes again the same."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from solvers.joint.lists.grouping import singletons
from solvers.joint.lists.jobs import jobs_of
from solvers.joint.lists.jobs_kernel import NONE
from solvers.joint.passes.model import pass_model
from solvers.joint.planners.layer_split import LayerSplit
from solvers.joint.planners.list_schedulers import HEFT, METF, MSCT, FavouriteProgram, MTopo
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import Amount
from solvers.problem.problem import ComputeTable, Contiguity, Execution, Objective, Problem, Transfers
from solvers.programs.mip_search import solve_model
from solvers.search.monitor import Monitor
from tests.instances import forward_graph, problem, training_graph
from tests.random_problems import random_problem
from tests.solvers.joint.test_list_scheduling import PASS, graph_of

QUICK = {
    "m-topo": MTopo(),
    "m-topo, as published": MTopo(own_order=True),
    "m-etf": METF(),
    "m-etf, own links": METF(channel="link", fusion=False),
    "m-etf, apart": METF(co_placement=False),
    "heft": HEFT(),
    "heft, grouped": HEFT(grouped=True, channel="free"),
    "layer-split": LayerSplit(),
}


@pytest.mark.parametrize("planner", list(QUICK.values()), ids=list(QUICK))
def test_every_plan_keeps_the_rules_and_comes_again_the_same(planner):
    plans = 0
    for seed in range(24):
        p = random_problem(seed, 7, max_replicas=1, **PASS)
        if planner.unsupported(p) is not None:
            continue
        result = solve(p, planner)  # which verifies the plan
        if result.plan is None:
            continue
        plans += 1
        assert check(p, result.plan) == ()
        assert result.bound_s <= result.objective_s
        assert solve(p, planner).plan == result.plan
    assert plans > 12


@pytest.mark.parametrize("planner", [MTopo(), METF(), MSCT(), HEFT()], ids=lambda planner: planner.name)
def test_other_questions_are_refused_in_a_line(planner):
    p = problem(forward_graph([(0, 1)], 2), [1, 1], **PASS, training=False)
    assert planner.unsupported(p) is None
    for other in (
        {"objective": Objective.ITERATION},
        {"execution": Execution.CALL, "transfers": Transfers.BLOCKING},
        {"contiguity": Contiguity.ACYCLIC},
    ):
        reason = planner.unsupported(replace(p, **other))
        assert reason is not None
        assert "\n" not in reason


@pytest.mark.parametrize("planner", [METF(co_placement=False), HEFT()], ids=lambda planner: planner.name)
def test_a_peak_beyond_a_cap_makes_them_plan_with_less(planner):
    """Two operators in a chain keep 10 bytes each and need 5 more while they run: more than 22 on one device."""
    graph = forward_graph([(0, 1)], 2, nbytes=1.0, param_bytes=10.0)
    hungry = tuple(replace(o, workspace_bytes=Amount(0.0, 5.0)) for o in graph.operators)
    options = PASS | {"training": False, "bandwidth": 1.0}
    p = problem(replace(graph, operators=hungry), [1, 1], memory=22.0, **options)
    assert solve(p, planner).objective_s == 3
    roomy = problem(replace(graph, operators=hungry), [1, 1], memory=30.0, **options)
    assert solve(roomy, planner).objective_s == 2


def test_co_placed_operators_that_find_no_place_are_tried_apart():
    """Three pairs of 2 x 6 bytes, joined, are too many for two devices of 18; by themselves there is room."""
    graph = forward_graph([(0, 1), (2, 3), (4, 5)], 6, nbytes=1.0)
    p = replace(problem(graph, [1] * 6, memory=18.0, **PASS, training=False), stated_bytes=(6.0,) * 6)
    result = solve(p, METF())
    assert result.plan is not None
    assert check(p, result.plan) == ()


def test_a_favourite_child_is_the_one_whose_transfer_would_take_longest():
    """Of 0 -> 1 (9 s) and 0 -> 2 (1 s), and 1, 2 -> 3 (4 s and 1 s)."""
    p = problem(graph_of(4, [(0, 1, 9.0), (0, 2, 1.0), (1, 3, 4.0), (2, 3, 1.0)]), [1] * 4, **PASS, training=False)
    model = pass_model(p)
    jobs = jobs_of(model, singletons(model), contract=False)
    program = FavouriteProgram(jobs.arrays)
    incumbents = []
    outcome = solve_model(program.model, Monitor(p), incumbents.append)
    assert outcome.optimal
    assert [job[0] for job in jobs.clusters.members] == [0, 1, 2, 3]
    # 3 s of operators; with t of the transfer 1 -> 3 and 1 - t of 2 -> 3, the longer path is max(4 t, 2 - t).
    assert incumbents[-1][0] == pytest.approx(4.6)
    assert program.favourites(incumbents[-1], 0.1).tolist() == [1, NONE, NONE, NONE]
    assert program.favourites(incumbents[-1], 0.5).tolist() == [1, 3, NONE, NONE]


def test_at_most_one_child_and_one_parent_are_favourites():
    p = problem(graph_of(3, [(0, 1, 1.0), (0, 2, 1.0)]), [1] * 3, **PASS, training=False)
    model = pass_model(p)
    program = FavouriteProgram(jobs_of(model, singletons(model), contract=False).arrays)
    everything = np.zeros(len(program.model))
    assert sorted(program.favourites(everything, 0.1).tolist()) == [NONE, NONE, 2]


def test_m_sct_plans_with_the_favourites_of_its_program():
    p = random_problem(3, 7, memory=float("inf"), max_replicas=1, training=True, cpus=0, **PASS)
    result = solve(p, MSCT())
    assert result.plan is not None
    assert check(p, result.plan) == ()
    assert not result.notes
    assert solve(p, MSCT()).plan == result.plan


@pytest.mark.parametrize("objective", list(Objective))
@pytest.mark.parametrize("contiguity", list(Contiguity))
def test_layers_are_split_for_every_objective(objective, contiguity):
    """Six layers of 1 s, forward and backward, on three devices: two each."""
    graph = training_graph([(i, i + 1) for i in range(5)], 6, nbytes=0.001)
    p = problem(graph, [1.0] * 12, 3, objective=objective, contiguity=contiguity, mini_batch=3, micro_batches=3)
    result = solve(p, LayerSplit(fewer=False))
    assert result.plan is not None
    assert check(p, result.plan) == ()
    place = result.plan.placement()
    assert [place[o] for o in range(6)] == [(0,), (0,), (1,), (1,), (2,), (2,)]


def test_fewer_devices_are_tried_where_transfers_cost_more_than_they_bring():
    """A cut of 0.9 s lessens the load of the busiest, and delays the end."""
    p = problem(forward_graph([(0, 1), (1, 2)], 3, nbytes=0.9), [1, 1, 1], 3, **PASS, training=False)
    assert solve(p, LayerSplit(fewer=False)).objective_s == pytest.approx(4.8)
    assert solve(p, LayerSplit()).objective_s == 3


def test_layers_that_hold_much_are_spread_by_memory():
    """The first layer takes all the time, yet the others do not fit together on one device."""
    p = problem(forward_graph([(0, 1), (1, 2), (2, 3)], 4, param_bytes=10.0), [9, 1, 1, 1], memory=20.0, **PASS)
    p = replace(p, training=False)
    result = solve(p, LayerSplit())
    assert result.plan is not None
    assert [result.plan.placement()[o] for o in range(4)] == [(0,), (0,), (1,), (1,)]


def test_a_device_that_is_twice_as_fast_gets_twice_the_layers():
    graph = forward_graph([(i, i + 1) for i in range(5)], 6)
    cluster = uniform_cluster((Device("slow", "slow"), Device("fast", "fast")), 1.0)
    seconds = {"slow": np.full((6, 1), 2.0), "fast": np.full((6, 1), 1.0)}
    p = Problem(graph, cluster, ComputeTable((1,), seconds), training=False, **PASS)
    result = solve(p, LayerSplit(fewer=False))
    assert result.plan is not None
    assert [result.plan.placement()[o] for o in range(6)] == [(0,), (0,), (1,), (1,), (1,), (1,)]
    assert solve(p, HEFT()).objective_s == 6  # a chain gains nothing from the slow one


def test_without_a_link_they_find_one_device_or_nothing():
    p = problem(forward_graph([(0, 1)], 2, nbytes=1.0, param_bytes=10.0), [1, 1], memory=15.0, **PASS, training=False)
    apart_only = replace(p, cluster=replace(p.cluster, links=()))
    for planner in QUICK.values():
        assert solve(apart_only, planner).plan is None
        assert math.isfinite(solve(p, planner).objective_s)
