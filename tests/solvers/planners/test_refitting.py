"""Questions whose plans say which operators run again: never worse than whole stages, and kept in files."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from solvers.errors import InvalidPlan, InvalidProblem
from solvers.evaluation.evaluate import evaluate
from solvers.formats.plan_json import read_plan, write_plan
from solvers.plan.plan import Region, Stage
from solvers.plan.regions import with_regions, without_regions
from solvers.plan.result import Result, Status
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.graph import Amount
from solvers.problem.problem import Objective, Problem
from solvers.search.effort import Effort
from tests.instances import problem, training_graph

BLOCKS = 6


def model(memory: float, **options: object) -> Problem:
    """A chain of pairs: a product that takes 8 s and saves 2 bytes, and an activation that takes 1 s and saves 6."""
    count = 2 * BLOCKS
    graph = training_graph([(i, i + 1) for i in range(count - 1)], count, nbytes=2.0)
    operators = [
        replace(o, saved_bytes=Amount(0, (2.0, 6.0)[i % 2]) if i < count else o.saved_bytes)
        for i, o in enumerate(graph.operators)
    ]
    seconds = [(8.0, 1.0)[i % 2] * (1 + (i >= count)) for i in range(2 * count)]
    fields = {"mini_batch": 8, "micro_batches": 8, "bandwidth": 100.0, **options}
    return problem(replace(graph, operators=tuple(operators)), seconds, 2, memory=memory, **fields)  # type: ignore[arg-type]


def solved(memory: float, planner: str = "auto", **options: object) -> Result:
    return solve(model(memory, **options), planner, effort=Effort.QUICK, time_limit_s=120)


@pytest.mark.parametrize("memory", [70.0, 50.0, 38.0, 30.0, 25.0])
def test_more_freedom_is_never_worse(memory: float) -> None:
    stage, budget = solved(memory, recompute=True), solved(memory, recompute=True, recompute_operators=True)
    assert budget.objective_s <= stage.objective_s * (1 + 1e-9)
    assert budget.plan is not None
    assert check(budget.problem, budget.plan) == ()


def test_the_cheap_operators_run_again_where_memory_is_short() -> None:
    """Activations save three quarters of all for a ninth of the time."""
    result = solved(50.0, recompute=True, recompute_operators=True)
    stage = solved(50.0, recompute=True)
    assert result.plan is not None
    again = {o for one in result.plan.stages for o in one.again}
    assert again
    assert all(o % 2 for o in again)
    assert result.objective_s < stage.objective_s * 0.99
    assert any("for what runs again" in note for note in result.notes)


def test_an_exact_planner_does_not_prove_what_it_did_not_look_at() -> None:
    """It tries all placements without what may run again, and `auto` finds a faster plan."""
    result = solved(50.0, "brute-force", recompute_operators=True)
    assert result.status is Status.FEASIBLE
    assert result.bound_s < result.objective_s
    assert solved(50.0, recompute=True, recompute_operators=True).objective_s < result.objective_s


def test_a_file_says_what_runs_again() -> None:
    result = solved(38.0, recompute=True, recompute_operators=True)
    assert result.plan is not None
    assert any(stage.regions for stage in result.plan.stages)
    shown = write_plan(result.problem, result.plan, result)
    file = read_plan(shown)
    assert file.plan == result.plan
    assert evaluate(file.problem, file.plan) == evaluate(result.problem, result.plan)
    assert check(file.problem, file.plan) == ()
    assert write_plan(file.problem, file.plan, file.result) == shown
    assert without_regions(file.problem).plain is None
    assert with_regions(file.problem, file.plan) is file.problem
    value = json.loads(shown)
    value["plan"]["stages"][0]["regions"] = [{"operators": [len(file.problem.graph) - 1], "cached": [0]}]
    with pytest.raises(InvalidPlan, match="region"):
        read_plan(value)


def test_regions_of_a_stage_are_its_operators_once_each() -> None:
    for regions in ((Region((7,)),), (Region((0, 1)), Region((1,))), (Region((0,), (1,)),)):
        with pytest.raises(InvalidPlan, match="region"):
            Stage((0, 1), (0,), regions=regions)
    with pytest.raises(InvalidPlan, match="choose one"):
        Stage((0, 1), (0,), recompute=True, regions=(Region((0,)),))


def test_one_pass_keeps_nothing_that_could_run_again() -> None:
    with pytest.raises(InvalidProblem, match="recompute_operators"):
        model(90.0, recompute_operators=True, objective=Objective.MAKESPAN)
