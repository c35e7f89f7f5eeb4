"""What holds for every planner alike: cancel, time limit, infeasibility, and statuses that are true."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

from solvers.evaluation.evaluate import judge
from solvers.plan.result import Status, StopReason
from solvers.planners.check import check
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Execution, Objective, Transfers
from tests.instances import forward_graph, problem, training_graph
from tests.random_problems import random_problem

SHORT_S = 0.5
"""Long enough for a tiny problem; some planners search until their time is up."""
CHAIN = [(0, 1), (1, 2), (2, 3)]
KINDS = {
    "max-load": {"objective": Objective.MAX_LOAD},
    "max-load, any set": {"objective": Objective.MAX_LOAD, "contiguity": Contiguity.NONE},
    "iteration": {"objective": Objective.ITERATION},
    "latency": {"objective": Objective.MAKESPAN, "execution": Execution.CALL, "transfers": Transfers.BLOCKING},
    "operators": {"objective": Objective.MAKESPAN, "execution": Execution.OPERATOR, "contiguity": Contiguity.NONE},
}
"""Each is a problem that some planners are made for."""


def chain(kind, **options):
    """Four operators of 10 bytes in a chain; for training each holds 4 x 10 bytes."""
    if kind == "latency":
        graph = forward_graph(CHAIN, 4, nbytes=0.01, param_bytes=10.0)
        return problem(graph, [1, 2, 3, 4], 2, training=False, **(KINDS[kind] | options))
    graph = training_graph(CHAIN, 4, nbytes=0.01, param_bytes=10.0)
    micro_batches = 1 if kind == "operators" else 4
    return problem(graph, [1, 2, 3, 4] * 2, 2, mini_batch=4, micro_batches=micro_batches, **(KINDS[kind] | options))


def planner_for(name, p):
    """A planner with its default options; skips where it says that it cannot represent the problem."""
    planner = PLANNERS[name]()
    reason = planner.unsupported(p)
    if reason is not None:
        assert "\n" not in reason
        pytest.skip(f"unsupported: {reason}")
    return planner


def is_true(p, result, optimum_s=None):
    """Whether what the result claims holds; ``optimum_s`` is inf where nothing fits."""
    if result.plan is None:
        assert math.isinf(result.objective_s)
        assert result.status in (Status.INFEASIBLE, Status.NO_PLAN)
        assert result.status is not Status.INFEASIBLE or optimum_s is None or math.isinf(optimum_s)
        return
    assert check(p, result.plan) == ()
    assert result.objective_s == judge(p, result.plan).objective_s
    assert result.bound_s <= result.objective_s
    assert (result.status is Status.OPTIMAL) == (result.bound_s >= result.objective_s * (1 - 1e-9))
    if optimum_s is not None:
        assert result.bound_s <= optimum_s * (1 + 1e-9) <= result.objective_s * (1 + 1e-8)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("name", list(PLANNERS))
def test_a_cancel_ends_the_search_and_keeps_the_best_plan(name, kind):
    p = chain(kind)
    requests = []
    offered = []

    def should_stop():
        requests.append(1)
        return len(requests) > 2

    result = solve(
        p, planner_for(name, p), should_stop=should_stop, on_progress=lambda step, _: offered.append(step.objective_s),
        time_limit_s=20,
    )  # fmt: skip
    assert result.stop_reason in (StopReason.CANCELLED, StopReason.FINISHED, StopReason.STATE_LIMIT)
    assert len(requests) <= 4, "asked again after it was told to stop"
    assert result.status is not Status.INFEASIBLE
    assert result.objective_s == min(offered, default=math.inf)
    is_true(p, result)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("name", list(PLANNERS))
def test_the_time_limit_ends_the_search_and_keeps_the_best_plan(name, kind):
    p = chain(kind)
    seconds = iter(range(10**6))
    result = solve(p, planner_for(name, p), time_limit_s=3, clock=lambda: float(next(seconds)))
    assert result.stop_reason in (StopReason.TIME_LIMIT, StopReason.FINISHED, StopReason.STATE_LIMIT)
    assert result.status is not Status.INFEASIBLE
    is_true(p, result)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("name", list(PLANNERS))
def test_a_cap_below_the_largest_group_is_infeasible(name, kind):
    p = chain(kind, memory=9.0 if kind == "latency" else 39.0)
    result = solve(p, planner_for(name, p), time_limit_s=SHORT_S)
    assert (result.status, result.plan) == (Status.INFEASIBLE, None)
    assert math.isinf(result.objective_s)


@pytest.mark.parametrize("kind", ["max-load", "max-load, any set", "latency", "operators"])
@pytest.mark.parametrize("name", list(PLANNERS))
def test_a_cap_that_only_a_search_proves_too_small_gives_no_plan(name, kind):
    """Three groups of 2 bytes each on two devices of 3 bytes: enough in sum, yet two cannot share one."""
    training = kind != "latency"
    p = problem(
        forward_graph([(0, 1), (1, 2)], 3), [1, 1, 1], 2, memory=3.0, training=training, **KINDS[kind]
    )  # fmt: skip
    p = replace(p, stated_bytes=(2.0, 2.0, 2.0))
    result = solve(p, planner_for(name, p), time_limit_s=SHORT_S)
    assert result.plan is None
    assert result.status in (Status.INFEASIBLE, Status.NO_PLAN)
    exact = PLANNERS[name].guarantee == "exact" and kind == "max-load"
    if exact and result.stop_reason is StopReason.FINISHED:
        assert result.status is Status.INFEASIBLE


def small_problem(kind, seed):
    """A problem that can be enumerated."""
    return random_problem(seed, largest=4, **({"contiguity": Contiguity.ACYCLIC} | KINDS[kind]))


@cache
def oracle_of(kind, seed):
    """What brute force says of it, once for all planners."""
    return solve(small_problem(kind, seed), "brute-force")


@pytest.mark.first(6)
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "brute-force"])
def test_no_planner_beats_the_oracle_and_no_bound_exceeds_it(name, kind):
    tried = 0
    for seed in range(40):
        p = small_problem(kind, seed)
        if kind == "latency" or PLANNERS[name]().unsupported(p) is not None:
            continue
        oracle = oracle_of(kind, seed)
        if oracle.status not in (Status.OPTIMAL, Status.INFEASIBLE):
            continue
        result = solve(p, name, time_limit_s=SHORT_S)
        is_true(p, result, oracle.objective_s)
        tried += 1 if result.runtime_s < SHORT_S / 5 else 8  # the slow ones see fewer problems
        if tried >= 24:
            break
    if not tried:
        pytest.skip("supports none of these problems, or there is no oracle for them")
