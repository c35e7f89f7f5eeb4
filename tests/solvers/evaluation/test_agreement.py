"""`evaluate`, `simulate`, `verify` (by way of `check`) and `bounds` are separate implementations that must agree."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest

from solvers.bounds.combinatorial import lower_bound_s, proved_infeasible
from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import evaluate, judge
from solvers.evaluation.simulation import simulate
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Objective
from solvers.schedules.assemble import assemble
from tests.random_problems import random_placement, random_problem


def plans(seed: int, contiguity: Contiguity | None = None):
    p = random_problem(seed) if contiguity is None else random_problem(seed, contiguity=contiguity)
    rng = random.Random(seed)
    for _ in range(4):
        placement = random_placement(rng, p)
        try:
            yield p, assemble(p, placement, rng.choice(p.micro_batch_choices()))
        except InvalidPlan:
            continue  # co-located operators that cannot share a stage


@pytest.mark.parametrize("seed", range(150))
def test_judge_calls_a_plan_feasible_exactly_when_check_finds_nothing(seed):
    for p, plan in plans(seed):
        judged = judge(p, plan)
        violations = check(p, plan)
        assert judged.feasible == (not violations), (judged, violations)


@pytest.mark.parametrize("seed", range(60))
def test_no_plan_beats_the_lower_bound(seed):
    for p, plan in plans(seed, Contiguity.NONE):
        judged = judge(p, plan)
        if judged.feasible:
            assert proved_infeasible(p) is None
            assert lower_bound_s(p) <= judged.objective_s * (1 + 1e-12)


@pytest.mark.parametrize("seed", [103, 1052, *range(40)])
@pytest.mark.parametrize("objective", list(Objective))
def test_the_lower_bound_is_below_the_best_of_all_placements(seed, objective):
    p = random_problem(seed, largest=4, objective=objective, contiguity=Contiguity.NONE)
    best = solve(p, "brute-force")
    assert lower_bound_s(p) <= best.objective_s * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(60))
def test_a_device_is_busy_for_its_compute_load_times_the_mini_batch(seed):
    for p, plan in plans(seed):
        metrics = evaluate(p, plan)
        from solvers.evaluation.load import loads

        per_sample = loads(p, plan).compute_s.sum(axis=0)
        # one-point cost tables scale with samples, so micro-batching changes no total
        assert metrics.busy_s == pytest.approx(tuple(per_sample * p.mini_batch))


@pytest.mark.parametrize("seed", range(60))
def test_doubling_every_time_doubles_every_objective(seed):
    from dataclasses import replace

    from solvers.problem.cluster import Cluster, Link
    from solvers.problem.problem import ComputeTable

    for p, plan in plans(seed):
        links = tuple(
            Link(link.src, link.dst, link.bandwidth_bytes_per_s / 2, link.latency_s * 2, link.resource)
            for link in p.cluster.links
        )
        slower = replace(
            p,
            cluster=Cluster(p.cluster.devices, links),
            compute=ComputeTable(p.compute.samples, {k: t * 2 for k, t in p.compute.seconds.items()}),
        )
        before, after = evaluate(p, plan), evaluate(slower, plan)
        for objective in Objective:
            assert after.objective_s(objective) == pytest.approx(2 * before.objective_s(objective))


@pytest.mark.parametrize("seed", range(40))
def test_the_critical_path_is_gapless_and_ends_the_schedule(seed):
    for p, plan in plans(seed):
        schedule = simulate(p, plan)
        chain = [schedule.spans[i] for i in schedule.critical]
        assert chain[0].start_s == 0
        assert chain[-1].end_s == schedule.makespan_s
        for a, b in pairwise(chain):
            assert math.isclose(a.end_s, b.start_s, abs_tol=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_memory_returns_to_its_static_floor(seed):
    for p, plan in plans(seed):
        for curve in simulate(p, plan).memory:
            assert curve.nbytes[-1] == pytest.approx(curve.static_bytes)
            assert np.min(curve.nbytes) >= curve.static_bytes - 1e-9
