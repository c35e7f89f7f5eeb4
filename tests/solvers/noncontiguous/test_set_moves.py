"""Moves in O(degree) equal loads computed afresh; the planners built on them equal brute force on tiny problems."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.bounds.combinatorial import proved_infeasible
from solvers.coarsening.coarsen import contract
from solvers.errors import InvalidPlan
from solvers.evaluation.load import loads
from solvers.formats.msr2020 import read_msr2020
from solvers.noncontiguous.planners.annealing import Annealing
from solvers.noncontiguous.planners.annealing_kernel import anneal, new_walk
from solvers.noncontiguous.planners.local_search import LocalSearch
from solvers.noncontiguous.planners.non_contiguous import NonContiguous
from solvers.noncontiguous.planners.non_contiguous_kernel import new_tour, tour
from solvers.noncontiguous.set_moves_kernel import (
    excess,
    is_contiguous,
    make_move,
    max_load,
    new_state,
    place,
    try_move,
)
from solvers.noncontiguous.sets import plan_of, sets_of
from solvers.plan.contiguity import broken_contiguity
from solvers.plan.result import Status, StopReason
from solvers.planners.brute_force import BruteForce
from solvers.planners.solve import solve
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import Operator, OpGraph, Tensor
from solvers.problem.problem import ComputeTable, Contiguity, Objective, Pipeline, Problem, Transfers
from solvers.search.monitor import Monitor
from tests.instances import forward_graph, problem
from tests.random_problems import random_problem
from tests.solvers.msr_instances import as_problem, needs_workloads, published, random_file, references

EVERY_KIND = [(t, p) for t in Transfers for p in (Pipeline.ONE_F_ONE_B, Pipeline.GPIPE)]


@pytest.mark.parametrize(("transfers", "pipeline"), EVERY_KIND)
def test_loads_after_many_moves_equal_loads_of_the_plan(transfers, pipeline):
    shown = 0
    for seed in range(25):
        rng = random.Random(seed)
        p = random_problem(
            seed,
            6,
            objective=Objective.MAX_LOAD,
            contiguity=Contiguity.NONE,
            transfers=transfers,
            pipeline=pipeline,
            micro_batches=2,
        )
        contracted = contract(p, 2, merge_trivial=False)
        sets = sets_of(p, contracted)
        at = new_state(sets)
        nodes, devices = sets.allowed.shape
        place(sets, at, np.array([rng.randrange(devices) for _ in range(nodes)]))
        for _ in range(30):
            v, b = rng.randrange(nodes), rng.randrange(devices)
            if at.where[v] != b:
                try_move(sets, at, v, b)
                make_move(sets, at, v, b)
        try:
            expected = loads(p, plan_of(p, contracted, at.where, 2))
        except InvalidPlan:  # backward tensors that mirror nothing
            continue
        shown += 1
        by_pass = expected.per_pass_s() if pipeline is Pipeline.GPIPE else expected.total_s()[None, :]
        assert at.load == pytest.approx(by_pass, rel=1e-9), f"seed {seed}"
        assert max_load(at) == pytest.approx(expected.max_load_s(), rel=1e-9)
        assert sorted(v for d in range(devices) for v in at.members[d, : at.sizes[d]]) == list(range(nodes))
    assert shown >= 20


@pytest.mark.parametrize("contiguity", [Contiguity.ACYCLIC, Contiguity.CONVEX])
def test_the_kernel_tells_contiguity_as_the_judge_does(contiguity):
    both = set()
    for seed in range(60):
        rng = random.Random(seed)
        p = random_problem(seed, 6, objective=Objective.MAX_LOAD, contiguity=contiguity, cpus=1, micro_batches=1)
        unconstrained = replace(p, contiguity=Contiguity.NONE)
        contracted = contract(p, 4, merge_trivial=False)
        sets = sets_of(p, contracted)
        at = new_state(sets)
        nodes, devices = sets.allowed.shape
        place(sets, at, np.zeros(nodes, np.int64))
        for _ in range(20):
            v, b = rng.randrange(nodes), rng.randrange(devices)
            if at.where[v] != b:
                try_move(sets, at, v, b)
                make_move(sets, at, v, b)
        try:
            plan = plan_of(unconstrained, contracted, at.where, 1)
        except InvalidPlan:
            continue
        expected = broken_contiguity(p, plan) == ""
        both.add(expected)
        assert is_contiguous(sets, at, np.zeros(nodes, bool)) == expected, f"seed {seed}"
    assert both == {True, False}


def test_enumeration_visits_every_placement_once():
    p = problem(forward_graph([(0, 1), (1, 2)], 4, 1.0), [1, 2, 3, 4], 3, contiguity=Contiguity.NONE, training=False)
    sets = sets_of(p, contract(p, 1, merge_trivial=False))
    at, seen = new_state(sets), new_tour(sets)
    place(sets, at, np.zeros(4, np.int64))
    placements = {tuple(at.where)}
    while tour(sets, at, seen, 1):
        placements.add(tuple(at.where))
    assert len(placements) == 3**4


@pytest.mark.parametrize("cpus", [0, 1])
def test_no_planner_of_sets_beats_brute_force_and_the_bound_is_never_above_it(cpus):
    """Random files: groups, orphans, operators no accelerator can run, caps on memory."""
    proved = 0
    for seed in range(14):
        p = as_problem(read_msr2020(random_file(seed, cpus), "random"), contiguity=Contiguity.NONE)
        brute = solve(p, BruteForce())
        result = solve(p, NonContiguous(prove=False))
        assert result.bound_s <= brute.objective_s * (1 + 1e-9), f"seed {seed}"
        if brute.plan is None:
            assert result.status is Status.INFEASIBLE, f"seed {seed}"
            continue
        assert result.objective_s == pytest.approx(brute.objective_s, rel=1e-9), f"seed {seed}"
        proved += result.status is Status.OPTIMAL
        for planner in (LocalSearch(restarts=3), Annealing(steps=1000, patience=5)):
            answer = solve(p, planner)
            assert answer.objective_s >= brute.objective_s * (1 - 1e-9), f"seed {seed} {planner.name}"
            assert answer.bound_s <= brute.objective_s * (1 + 1e-9), f"seed {seed} {planner.name}"
    assert proved >= 8


@pytest.mark.parametrize(("transfers", "pipeline"), EVERY_KIND)
def test_every_variant_equals_brute_force(transfers, pipeline):
    """Counted memory, pins, several numbers of micro-batches."""
    for seed in range(4):
        p = random_problem(
            seed, 4, objective=Objective.MAX_LOAD, contiguity=Contiguity.NONE, transfers=transfers, pipeline=pipeline
        )
        if seed % 2:
            p = replace(p, pins={0: len(p.cluster) - 1})
        if proved_infeasible(p):
            continue
        brute, result = solve(p, BruteForce()), solve(p, NonContiguous(prove=False, patience=5))
        assert result.bound_s <= brute.objective_s * (1 + 1e-9), f"seed {seed}"
        assert result.objective_s >= brute.objective_s * (1 - 1e-9), f"seed {seed}"
        if math.isinf(min(d.memory_bytes for d in p.cluster.devices)):
            assert result.objective_s == pytest.approx(brute.objective_s, rel=1e-9), f"seed {seed}"


@pytest.mark.parametrize("contiguity", [Contiguity.ACYCLIC, Contiguity.CONVEX])
def test_contiguous_answers_are_contiguous_and_no_better_than_brute_force(contiguity):
    for seed in range(10):
        p = as_problem(read_msr2020(random_file(seed, 1), "random"), contiguity=contiguity)
        brute = solve(p, BruteForce())
        for planner in (LocalSearch(restarts=3), Annealing(steps=1000, patience=5)):
            result = solve(p, planner)
            assert result.objective_s >= brute.objective_s * (1 - 1e-9), f"seed {seed} {planner.name}"
            assert result.plan is None or broken_contiguity(p, result.plan) == ""


def test_annealing_starts_over_memory_and_comes_within_it():
    """Eight equal operators, caps of two each, all on one device to begin with."""
    devices = tuple(Device(f"{i}", "gpu", 2.0) for i in range(4))
    graph = OpGraph(tuple(Operator(f"o{i}") for i in range(8)), (Tensor(0, (1,)),))
    p = Problem(
        graph,
        uniform_cluster(devices, math.inf),
        ComputeTable((1,), {"gpu": np.ones((8, 1))}),
        Objective.MAX_LOAD,
        Contiguity.NONE,
        Transfers.BLOCKING,
        stated_bytes=(1.0,) * 8,
        training=False,
    )
    sets = sets_of(p, contract(p, 1))
    at, none = new_state(sets), np.zeros(1, np.int64)
    place(sets, at, np.zeros(8, np.int64))
    assert excess(sets, at) == pytest.approx(3.0)
    walk = new_walk(sets, none, none[:0], 0)
    walk.temperature[:] = 1e-3, 1.0
    walk.smooth[:] = 1.0, 80.0
    anneal(sets, at, walk, 5000)
    assert excess(sets, at) == 0.0
    assert walk.best[0] == pytest.approx(2.0)


def test_a_walk_in_slices_is_the_same_walk():
    p = as_problem(read_msr2020(random_file(3, 1), "random"), contiguity=Contiguity.NONE)
    sets = sets_of(p, contract(p, 1))
    ends = []
    for slices in (1, 10):
        at, walk = new_state(sets), new_walk(sets, np.zeros(1, np.int64), np.zeros(0, np.int64), 5)
        place(sets, at, np.zeros(len(sets.held), np.int64))
        walk.temperature[:] = 1e-3, 0.999
        walk.smooth[:] = 1.0, 1.0
        for _ in range(slices):
            anneal(sets, at, walk, 1000 // slices)
        ends.append((at.where.tolist(), float(walk.best[0]), int(walk.rng[0])))
    assert ends[0] == ends[1]


@needs_workloads
@pytest.mark.parametrize("name", ["operator-bert_l-3_inference", "operator-bert_l-3_training", "layer-gnmt_inference"])
def test_annealing_beats_the_contiguous_optimum_of_published_workloads(name):
    p = as_problem(published(name), contiguity=Contiguity.NONE)
    reference = references()[name]
    result = solve(p, Annealing(steps=50_000, patience=3))
    assert result.objective_s * 1e3 < reference["contiguous_optimum"] * 0.99
    assert result.objective_s * 1e3 == pytest.approx(reference["noncontiguous"]["best_known"], rel=1e-3)


@needs_workloads
def test_local_search_is_about_as_good_as_the_published_one():
    """Seeds differ; the reference ignores CPUs and memory."""
    for name in ("layer-bert24_training", "layer-gnmt_inference", "layer-resnet50_training"):
        result = solve(as_problem(published(name), contiguity=Contiguity.NONE), LocalSearch())
        assert result.objective_s * 1e3 <= references()[name]["baselines"]["local_search_10"] * 1.05


def test_a_cancel_keeps_the_best_of_annealing():
    p = as_problem(read_msr2020(random_file(3, 1), "random"), contiguity=Contiguity.NONE)
    before = 0

    def stop_later() -> bool:
        nonlocal before
        before += 1
        return before > 30

    result = solve(p, Annealing(patience=10**6), should_stop=stop_later)
    assert result.plan is not None
    assert result.stop_reason is StopReason.CANCELLED


def test_what_the_planners_cannot_represent_is_refused():
    p = random_problem(0, objective=Objective.MAX_LOAD, contiguity=Contiguity.ACYCLIC)
    assert "contiguous" in NonContiguous().unsupported(p)
    assert "max-load" in NonContiguous().unsupported(replace(p, objective=Objective.ITERATION))
    assert Annealing().unsupported(p) is None


def test_other_objectives_are_offered_plans_and_no_bounds():
    p = random_problem(1, 4, objective=Objective.ITERATION, micro_batches=2)
    for planner in (LocalSearch(restarts=2), Annealing(steps=500, patience=2)):
        monitor = Monitor(p)
        assert planner(p, monitor) is False
        assert monitor.best is not None
        assert monitor.bound_s == 0


def test_bounds_from_children_are_never_above_the_optimum():
    """Not enumerated: the covering bound and the integer program settle it."""
    for seed in (1, 6):
        p = as_problem(read_msr2020(random_file(seed, 1), "random"), contiguity=Contiguity.NONE)
        brute = solve(p, BruteForce())
        result = solve(p, NonContiguous(enumerated=0, patience=2))
        assert result.objective_s == pytest.approx(brute.objective_s, rel=1e-9), f"seed {seed}"
        assert result.bound_s <= brute.objective_s * (1 + 1e-9), f"seed {seed}"
        assert result.status is Status.OPTIMAL


def test_one_device_has_one_placement_to_look_at():
    p = problem(
        forward_graph([(0, 1)], 2), [1, 2], 1, training=False, objective=Objective.MAX_LOAD, contiguity=Contiguity.NONE
    )
    result = solve(p, "non-contiguous", time_limit_s=5)
    assert (result.status, result.objective_s) == (Status.OPTIMAL, 3)
