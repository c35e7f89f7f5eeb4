"""The answer people get: the same everywhere, the leanest among equals, and never nothing where a plain split fits."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count

import pytest

from explorer.question.graphs.demos import traced_before
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.plan.result import Status, StopReason
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.cluster import uniform_cluster
from solvers.problem.problem import Contiguity, Execution, Objective, Transfers
from solvers.schedules.assemble import assemble
from solvers.search.effort import Effort
from tests.instances import problem, training_graph
from tests.random_problems import random_problem
from tests.solvers.planners.test_solve import Scripted, balanced, chain


def test_of_plans_as_fast_the_one_with_the_lowest_peak_is_kept_whoever_comes_first() -> None:
    """Two chains of one operator each beside each other, 4 and 1 bytes of parameters: together or apart makes no
    difference to the max-load of the third, slower, operator; apart from it both are lighter together than with it."""
    graph = training_graph([], 3, param_bytes=1.0)
    p = problem(graph, [1, 1, 9] * 2, 3, mini_batch=1, micro_batches=1, objective=Objective.MAX_LOAD)
    lean = assemble(p, [(0,), (1,), (2,)] * 2, 1)
    heavy = assemble(p, [(0,), (0,), (2,)] * 2, 1)
    for plans in ((lean, heavy), (heavy, lean)):
        assert solve(p, Scripted(plans)).plan == lean


def test_of_plans_as_fast_and_as_large_the_one_on_fewer_devices_is_kept() -> None:
    graph = training_graph([], 3, param_bytes=0.0)
    p = problem(graph, [1, 1, 9] * 2, 3, mini_batch=1, micro_batches=1, objective=Objective.MAX_LOAD)
    few = assemble(p, [(0,), (0,), (2,)] * 2, 1)
    many = assemble(p, [(0,), (1,), (2,)] * 2, 1)
    for plans in ((few, many), (many, few)):
        assert solve(p, Scripted(plans)).plan == few


def test_a_tie_claims_no_more_than_the_best_offer() -> None:
    """A lean plan half a millionth slower than the optimum is the answer; the bound stays the optimum's."""
    graph = training_graph([], 4, param_bytes=1.0)
    p = problem(graph, [1.0, 5e-7, 0.2, 0.2] * 2, 2, mini_batch=1, micro_batches=1, objective=Objective.MAX_LOAD)
    fast = assemble(p, [(0,), (1,), (1,), (1,)] * 2, 1)
    lean = assemble(p, [(0,), (0,), (1,), (1,)] * 2, 1)
    for plans in ((fast, lean), (lean, fast)):
        result = solve(p, Scripted(plans, covered=True))
        assert result.plan == lean
        assert result.status is Status.OPTIMAL
        assert result.bound_s == solve(p, Scripted((fast,))).objective_s < result.objective_s


def test_where_time_runs_out_before_the_first_plan_a_plain_split_is_the_answer() -> None:
    assert solve(chain(), Scripted()).status is Status.NO_PLAN  # it ended by itself
    result = solve(chain(), "downset-dp", time_limit_s=0.05, clock=count(step=0.1).__next__)
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert result.plan is not None
    assert "downset-dp found nothing in this time; the plan is that of equal" in result.notes


@pytest.mark.parametrize("seed", range(6))
def test_a_quick_search_finds_the_same_plan_on_a_clock_that_is_ten_times_as_fast(seed: int) -> None:
    objective = (Objective.ITERATION, Objective.MAKESPAN, Objective.MAX_LOAD)[seed % 3]
    p = random_problem(seed, 10, objective=objective)
    plans = []
    for tick in (1e-5, 1e-4):
        ticks = count(step=tick)
        result = solve(p, seed=3, effort=Effort.QUICK, time_limit_s=1e9, clock=ticks.__next__)
        plans.append((result.plan, result.objective_s, result.stop_reason))
    assert plans[0] == plans[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_runs_in_processes_finds_the_same_plan_on_a_clock_that_is_twenty_times_as_fast(seed: int) -> None:
    """Beyond the placements that are looked at one by one: annealing, and the constraint program by its own count."""
    options: dict[str, object] = {"objective": Objective.MAX_LOAD, "contiguity": Contiguity.NONE}
    if seed % 2:
        options = {"objective": Objective.MAKESPAN, "execution": Execution.CALL, "transfers": Transfers.BLOCKING}
        options["subgraphs_per_device"] = 1
    p = random_problem(seed, 14, training=False, **options)
    p = replace(p, cluster=uniform_cluster([replace(p.cluster.devices[0], memory_bytes=1e9)] * 6, 1.0), pins={})
    plans = []
    for times in (1, 20):
        result = solve(p, seed=3, effort=Effort.QUICK, time_limit_s=1e9, clock=lambda k=times: k * time.perf_counter())
        plans.append((result.plan, result.objective_s, result.stop_reason))
    assert plans[0] == plans[1]


@pytest.mark.parametrize("seed", range(8))
def test_auto_is_never_behind_a_member_of_its_family(seed: int) -> None:
    options: dict[str, object] = {"micro_batches": None, "recompute": seed % 3 == 0}
    p = random_problem(seed, 9, objective=Objective.ITERATION, mini_batch=8, **options)
    p = replace(p, max_replicas=1 + seed % 2)
    seconds = solve(p, effort=Effort.QUICK).objective_s
    for member in ("graph-pipeline", "linear-dp", "equal", "single", "pipedream-iter"):
        if PLANNERS[member]().unsupported(p) is None:
            assert seconds <= solve(p, member, effort=Effort.QUICK).objective_s * (1 + 2e-6), member


@pytest.mark.first(1)
@pytest.mark.parametrize(("name", "most"), [("gpt-small", 4), ("resnet50-small", 3)])
def test_another_device_or_replicas_never_make_the_answer_worse(name: str, most: int) -> None:
    """Each question asked by itself, at quick effort; replicas allowed or not."""
    workload = traced_before(name, True, None)
    assert workload is not None

    def answer_s(devices: int, replicas: int) -> float:
        settings = Settings(devices=devices, objective=Objective.ITERATION, max_replicas=replicas)
        return solve(make_problem(workload, settings), effort=Effort.QUICK).objective_s

    plain = [answer_s(devices, 1) for devices in range(1, most + 1)]
    assert plain == sorted(plain, reverse=True)
    assert answer_s(most, most) <= plain[most - 1] * (1 + 2e-6)


def test_more_effort_is_never_worse() -> None:
    p = replace(chain(objective=Objective.ITERATION), micro_batches=None)
    seconds = [solve(p, effort=effort).objective_s for effort in Effort]
    assert seconds == sorted(seconds, reverse=True)


def test_effort_is_a_share_of_the_counts_of_a_planner() -> None:
    assert [effort.of(1000) for effort in Effort] == [150, 1000, 8000]
    assert Effort.QUICK.of(1) == 1
    assert Effort.QUICK.of(0) == 0


def test_the_course_of_auto_says_which_planner_was_at_work() -> None:
    p = replace(chain(objective=Objective.ITERATION), micro_batches=None)
    members = {step.member for step in solve(p).trace}
    assert {"single", "graph-pipeline"} <= members
    assert {step.member for step in solve(p, "equal").trace} == {""}


def test_a_plan_as_good_as_the_start_is_not_taken_for_better() -> None:
    p = chain()
    assert solve(p, Scripted((balanced(p),)), start=balanced(p)).plan == balanced(p)
