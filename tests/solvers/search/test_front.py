"""Plans beside the answer: near it, leaner than it, and none that another beats."""

from __future__ import annotations

import itertools
import math
import random
import time
from dataclasses import replace

import pytest

from solvers.plan.plan import Plan
from solvers.planners.solve import solve
from solvers.problem.problem import Objective
from solvers.schedules.assemble import assemble
from solvers.search.front import MOST, NEAR, SAVES, Front
from solvers.search.monitor import Monitor
from tests.instances import problem, training_graph
from tests.solvers.planners.test_solve import Scripted

NO_PLAN = Plan((), ())


@pytest.mark.parametrize("seed", range(50))
def test_what_is_offered_is_what_all_pairs_of_plans_say(seed: int) -> None:
    rng = random.Random(seed)
    shown = [(1 + rng.randrange(12) / 1000, float(rng.randrange(80, 120))) for _ in range(rng.randrange(1, 30))]
    front = Front()
    for objective_s, peak in shown:
        front.add(NO_PLAN, objective_s, peak)
    best_s, best_peak = min(shown)
    offered = [(one.objective_s, one.peak_bytes) for one in front.beside(best_s, best_peak)]
    near = [(s, p) for s, p in shown if s <= best_s * (1 + NEAR) and p <= best_peak * (1 - SAVES)]
    assert bool(offered) == bool(near)
    assert len(offered) <= MOST
    assert set(offered) <= set(near)
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(offered))
    for objective_s, peak in offered:
        assert not any(s <= objective_s and p <= peak and (s, p) != (objective_s, peak) for s, p in shown)
    if near:
        # the leanest but for what is not worth a line
        assert offered[-1][1] <= min(p for _, p in near) + SAVES * best_peak


def test_a_result_offers_the_leaner_plan_and_answers_with_the_fast_one() -> None:
    graph = training_graph([], 4, param_bytes=1.0)
    p = problem(graph, [1.0, 0.004, 0.2, 0.2] * 2, 2, mini_batch=1, micro_batches=1, objective=Objective.MAX_LOAD)
    fast = assemble(p, [(0,), (1,), (1,), (1,)] * 2, 1)
    lean = assemble(p, [(0,), (0,), (1,), (1,)] * 2, 1)
    for plans in ((fast, lean), (lean, fast)):
        result = solve(p, Scripted(plans))
        assert result.plan == fast
        assert [one.plan for one in result.front] == [lean]
        (one,) = result.front
        assert result.objective_s < one.objective_s <= result.objective_s * 1.005


def test_a_plan_that_is_too_slow_or_saves_nothing_is_not_offered() -> None:
    graph = training_graph([], 4, param_bytes=1.0)
    p = problem(graph, [1.0, 0.01, 0.2, 0.2] * 2, 2, mini_batch=1, micro_batches=1, objective=Objective.MAX_LOAD)
    fast = assemble(p, [(0,), (1,), (1,), (1,)] * 2, 1)
    slow = assemble(p, [(0,), (0,), (1,), (1,)] * 2, 1)
    assert solve(p, Scripted((fast, slow))).front == ()
    assert solve(p, Scripted((fast, fast))).front == ()


def monitor_of(plans_fit: bool = True) -> tuple[Monitor, Plan, Plan]:
    graph = training_graph([], 3, param_bytes=1.0)
    p = problem(graph, [1, 2, 4] * 2, 2, mini_batch=1, micro_batches=1, objective=Objective.MAX_LOAD)
    return Monitor(p), assemble(p, [(0,)] * 6, 1), assemble(p, [(0,), (0,), (1,)] * 2, 1)


def test_a_search_apart_knows_nothing_but_what_was_given_and_tells_everything() -> None:
    monitor, one, two = monitor_of()
    monitor.offer(two)
    inner = monitor.independent()
    assert inner.best is None
    inner.offer(one)
    assert inner.best == one
    assert monitor.best == two
    inner.raise_bound(1.0)
    inner.note("something")
    inner.prove_infeasible("never")
    assert (monitor.bound_s, monitor.notes, monitor.infeasible) == (1.0, ["something"], "never")
    beside = Monitor(monitor.problem)
    assert beside.begin_with(one)
    assert beside.independent().best == one
    assert beside.independent().rng.random() == Monitor(monitor.problem).rng.random()


def test_a_search_apart_improves_the_whole() -> None:
    monitor, one, two = monitor_of()
    monitor.offer(one)
    assert math.isfinite(monitor.independent().offer(two))
    assert monitor.best == two


def test_another_question_on_the_way_tells_nothing_and_has_the_time_that_is_left() -> None:
    monitor, one, _ = monitor_of()
    monitor.time_limit_s = 100.0
    question = replace(monitor.problem, objective=Objective.ITERATION)
    inner = monitor.for_question(question)
    inner.offer(one)
    inner.raise_bound(0.5)
    assert monitor.best is None
    assert monitor.bound_s == 0
    assert inner.time_limit_s <= 100.0
    assert inner.clock is time.perf_counter
