"""Lower bounds on latency never exceed the best of all plans; planners never beat it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from solvers.evaluation.evaluate import judge
from solvers.latency.bounds import order_of, path_bound_s, paths
from solvers.latency.model import LatencyModel
from solvers.latency.path_cut_kernel import network_for
from solvers.latency.planners.greedy_latency import GreedyLatency
from solvers.latency.planners.latency import Latency
from solvers.latency.planners.latency_dp import LatencyDP
from solvers.latency.planners.latency_search import LatencySearch
from solvers.latency.plans import latency_s, plan_of_calls
from solvers.plan.result import Status
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from tests.solvers.latency.test_latency_plans import latency_problem


def never() -> None:
    return None


def best_latency_s(p: Problem, pieces: int) -> float:
    """The least latency over every device per group and every piece per operator; inf if none fits."""
    model = LatencyModel.of(p)
    best = math.inf
    places = model.accelerators + 1
    for where in itertools.product(range(places), repeat=model.groups):
        if not model.allowed[np.arange(model.groups), list(where)].all():
            continue
        held = np.bincount(where, model.group_bytes, places)
        if (held > model.caps).any():
            continue
        place = np.array(where)[model.group_of]
        split = [v for v in range(len(place)) if place[v] < model.accelerators]
        for piece in itertools.product(range(pieces), repeat=len(split)):
            call = np.full(len(place), -1)
            call[split] = place[split] * pieces + np.array(piece, int)
            seconds = latency_s(model, call, pieces)
            if seconds < best and (p.stated_bytes is not None or judge(p, plan_of_calls(model, call, pieces)).feasible):
                best = seconds
    return best


def stated(seed: int, largest: int, pieces: int | None) -> Problem:
    """A random problem whose memory is stated, so that nothing but the model decides what fits."""
    p = latency_problem(2 * seed + 1, largest)
    return replace(p, subgraphs_per_device=pieces, micro_batches=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("pieces", [1, 2])
def test_no_path_proves_more_than_the_best_plan_takes(seed: int, pieces: int) -> None:
    p = stated(seed, 5 if pieces == 1 else 4, pieces)
    best = best_latency_s(p, pieces)
    model = LatencyModel.of(p)
    order, network = order_of(model), network_for(model.calls)
    for path in itertools.islice(paths(model), 4):
        for limit in {pieces, None}:
            bound = path_bound_s(model, order, path, limit, math.inf, never, network)
            if limit == pieces:
                assert bound <= best * (1 + 1e-12)
            else:
                assert bound <= path_bound_s(model, order, path, pieces, math.inf, never, network) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_any_number_of_pieces_is_bounded_too(seed: int) -> None:
    """As many pieces as operators: nothing is left out."""
    p = stated(seed, 4, None)
    best = best_latency_s(p, min(len(p.graph), 3))
    model = LatencyModel.of(p)
    order, network = order_of(model), network_for(model.calls)
    for path in itertools.islice(paths(model), 4):
        assert path_bound_s(model, order, path, None, math.inf, never, network) <= best * (1 + 1e-12)


@pytest.mark.first(1)
@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("pieces", [1, 2])
def test_planners_reach_what_enumeration_finds(seed: int, pieces: int) -> None:
    """The search finds the best of tiny problems whose device sets need no finer pieces; nobody beats it."""
    p = stated(seed, 5 if pieces == 1 else 4, pieces)
    best = best_latency_s(p, pieces)
    for planner in (GreedyLatency(), LatencyDP(), LatencySearch(), Latency()):
        result = solve(p, planner, time_limit_s=20)
        assert result.objective_s >= best * (1 - 1e-9)
        assert result.bound_s <= best * (1 + 1e-9)
        if result.plan is not None:
            assert check(p, result.plan) == ()
        if pieces == 1 and planner.name in ("latency-search", "latency"):
            assert result.objective_s == pytest.approx(best, rel=1e-9)
        if math.isinf(best):
            assert result.status in (Status.INFEASIBLE, Status.NO_PLAN)
