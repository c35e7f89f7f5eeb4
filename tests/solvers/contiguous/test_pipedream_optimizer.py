"""PipeDream's own optimizer gives what its published program gives, and is exact for its own formulas."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from solvers.contiguous.pipedream_optimizer import Profile, optimise, profile_of
from solvers.formats.pipedream import read_pipedream
from solvers.pipelines.planners.pipedream_optimizer import PipeDreamOptimizer
from solvers.planners.solve import solve
from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.problem import Objective, Problem, Transfers
from tests.instances import problem, training_graph
from tests.solvers.formats.test_pipedream import needs_profiles
from tests.solvers.msr_instances import SHARED

BANDWIDTH = 2.0


@needs_profiles
@pytest.mark.parametrize(
    ("name", "machines", "expected_s"),
    [
        ("vgg16", 4, 0.174498),
        ("vgg16", 16, 0.046587),
        ("resnet50", 4, 0.113664),
        ("resnet50", 16, 0.029433),
        ("alexnet", 4, 0.022901),
        ("alexnet", 16, 0.0070596),
    ],
)
def test_published_profiles_give_the_values_of_the_published_program(name, machines, expected_s):
    workload = read_pipedream((SHARED / "workloads" / "pipedream" / f"{name}.txt").read_bytes(), name)
    assert workload.compute is not None
    device = Device("0", next(iter(workload.compute.seconds)))
    profile = profile_of(Problem(workload.graph, uniform_cluster((device,), 1.0), workload.compute), 1)
    optimum = optimise(profile, machines, 1.25e9, 16e9)
    assert optimum is not None
    assert optimum.bottleneck_s == pytest.approx(expected_s, rel=2e-5)
    assert sum(stage.machines for stage in optimum.stages) == machines
    assert sorted(o for stage in optimum.stages for o in stage.operators) == list(range(len(profile.compute_s)))


def random_profile(seed):
    rng = random.Random(seed)
    count = rng.randint(1, 5)
    edges = tuple((i, j) for i in range(count) for j in range(i + 1, count) if rng.random() < 0.4)
    draw = [np.array([float(rng.randint(1, 9)) for _ in range(count)]) for _ in range(3)]
    return Profile(*draw, edges)


def chains(profile, machines):
    """Every chain of (operators, machines) that cuts a topological order of the operators."""
    count = len(profile.compute_s)
    for order in itertools.permutations(range(count)):
        place = {operator: i for i, operator in enumerate(order)}
        if any(place[u] > place[v] for u, v in profile.edges):
            continue
        for parts in range(1, min(count, machines) + 1):
            for cuts in itertools.combinations(range(1, count), parts - 1):
                ends = (*cuts, count)
                sets = [order[a:b] for a, b in zip((0, *cuts), ends, strict=True)]
                for shares in itertools.product(range(1, machines + 1), repeat=parts):
                    if sum(shares) == machines:
                        yield list(zip(sets, shares, strict=True))


def bottleneck_s(profile, chain, machines, memory):
    """The formulas of the published program, computed once more."""
    worst, before = 0.0, 0
    for operators, r in chain:
        members = list(operators)
        params = profile.param_bytes[members].sum()
        held = profile.activation_bytes[members].sum() + params
        before += r
        if math.ceil((machines - before) / r) * held > memory:
            return math.inf
        worst = max(worst, (profile.compute_s[members].sum() + 4 * (r - 1) * params / (BANDWIDTH * r)) / r)
    return worst


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_best_of_all_chains(seed):
    profile = random_profile(seed)
    machines, memory = 1 + seed % 4, (math.inf, 25.0, 12.0)[seed % 3]
    best = min((bottleneck_s(profile, c, machines, memory) for c in chains(profile, machines)), default=math.inf)
    optimum = optimise(profile, machines, BANDWIDTH, memory)
    assert optimum is not None
    assert optimum.bottleneck_s == pytest.approx(best)
    if math.isfinite(best):
        chosen = [(stage.operators, stage.machines) for stage in optimum.stages]
        assert bottleneck_s(profile, chosen, machines, memory) == pytest.approx(best)
    else:
        assert optimum.stages == ()


def test_it_says_no_above_its_budget_of_downsets():
    side_by_side = Profile(np.ones(6), np.ones(6), np.ones(6), ())
    assert optimise(side_by_side, 2, BANDWIDTH, budget=63) is None
    optimum = optimise(side_by_side, 2, BANDWIDTH, budget=64)
    assert optimum is not None
    assert optimum.effort.states > 0
    assert optimum.effort.relaxations >= optimum.effort.states


def test_a_problem_is_profiled_per_micro_batch_with_both_passes():
    p = problem(training_graph([(0, 1)], 2, nbytes=1.0, param_bytes=3.0, saved=2.0), [1, 2, 10, 20])
    profile = profile_of(p, 4)
    assert profile.compute_s.tolist() == [44.0, 88.0]
    assert profile.activation_bytes.tolist() == [8.0, 8.0]
    assert profile.param_bytes.tolist() == [3.0, 3.0]
    assert profile.edges == ((0, 1),)


def test_as_a_planner_it_states_a_plan_that_brute_force_does_not_beat_where_transfers_are_free() -> None:
    for seed in range(6):
        rng = random.Random(seed)
        edges = [(i, i + 1) for i in range(3)]
        p = problem(
            training_graph(edges, 4), [float(rng.randint(1, 9)) for _ in range(8)], 2, bandwidth=math.inf,
            objective=Objective.MAX_LOAD, transfers=Transfers.BLOCKING,
        )  # fmt: skip
        assert solve(p, "pipedream-optimizer").objective_s == pytest.approx(solve(p, "brute-force").objective_s)


def test_beyond_its_budget_of_downsets_branches_are_merged_first() -> None:
    edges = [(0, i) for i in range(1, 6)] + [(i, 6) for i in range(1, 6)]
    p = problem(training_graph(edges, 7), [1.0] * 14, 2, objective=Objective.ITERATION)
    wide, narrow = solve(p, "pipedream-optimizer"), solve(p, PipeDreamOptimizer(budget=10))
    assert wide.plan is not None
    assert narrow.plan is not None
    assert any("blocks" in note for note in narrow.notes)
