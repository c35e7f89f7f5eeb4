"""Plans over repeated blocks: what is offered is a plan of the whole model, and `auto` asks for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solvers.bounds.combinatorial import lower_bound_s
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.pipelines.planners.repeated_blocks import RepeatedBlocks, first_split
from solvers.planners import portfolio
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import Objective
from solvers.search.effort import Effort
from solvers.search.monitor import Monitor
from tests.layered_models import layered


def test_its_plans_are_plans_of_the_whole_model():
    p = layered(6, devices=3)
    result = solve(p, RepeatedBlocks(pieces=6), effort=Effort.QUICK)
    assert result.plan is not None
    assert check(p, result.plan) == ()
    assert sorted(o for stage in result.plan.stages for o in stage.operators) == list(range(len(p.graph)))
    assert "6 equal blocks of model.layers" in result.notes[-1]
    assert result.objective_s >= result.bound_s >= lower_bound_s(p)


@pytest.mark.parametrize("changed", [{}, {"model.layers.2.up": {"seconds": 9.0}}], ids=["equal", "one differs"])
def test_cut_finely_it_is_about_as_good_as_the_search_on_the_whole_graph(changed):
    p = layered(6, devices=3, changed=changed)
    seconds = solve(p, RepeatedBlocks(), effort=Effort.QUICK).objective_s
    assert seconds <= solve(p, GraphPipeline(), effort=Effort.QUICK).objective_s * 1.03


@pytest.mark.parametrize("memory", [140.0, 130.0])
def test_pieces_are_planned_at_levels_of_what_runs_again(memory):
    """Without that nothing fits, and whole stages that run again take longer."""
    p = layered(6, devices=3, memory=memory)
    results = {}
    for name, question in {
        "nothing": p, "stages": replace(p, recompute=True), "levels": replace(p, recompute_operators=True)
    }.items():  # fmt: skip
        result = results[name] = solve(question, RepeatedBlocks(pieces=6), effort=Effort.QUICK)
        assert result.plan is None or check(result.problem, result.plan) == ()
    assert results["nothing"].plan is None
    assert results["levels"].objective_s < results["stages"].objective_s


def test_it_refuses_what_repeats_nothing_and_other_objectives():
    assert "repeated operator by operator" in (RepeatedBlocks().unsupported(layered(1)) or "")
    assert "iteration" in (RepeatedBlocks().unsupported(layered(4, objective=Objective.MAX_LOAD)) or "")
    with pytest.raises(ValueError, match="pieces"):
        RepeatedBlocks(pieces=0)


@pytest.mark.parametrize("layers", [1, 8], ids=["nothing repeats", "8 equal layers"])
@pytest.mark.parametrize("memory", [1e9, 250.0], ids=["roomy", "tight"])
def test_the_first_split_is_a_plan_that_fits(layers, memory):
    p = layered(layers, devices=3, memory=memory, recompute=True)
    monitor = Monitor(p)
    first_split(p, monitor)
    assert monitor.best is not None
    assert check(p, monitor.best) == ()
    assert len(monitor.best.stages) == 3


def test_auto_asks_for_repeated_blocks_where_a_graph_is_large_and_is_not_behind_without(monkeypatch):
    p = layered(6, devices=3)
    without = solve(p, effort=Effort.QUICK)
    monkeypatch.setattr(portfolio, "LARGE", 20)
    question = solve(p, effort=Effort.QUICK)
    assert question.objective_s <= without.objective_s * (1 + 1e-9)
    assert any(note.startswith("repeated-blocks") for note in question.notes)
    assert not any(note.startswith("repeated-blocks") for note in without.notes)


def test_the_same_question_gives_the_same_plan():
    first, second = (solve(layered(5), RepeatedBlocks(), effort=Effort.QUICK).plan for _ in range(2))
    assert first == second


def test_auto_begins_with_a_split_where_one_device_is_too_small():
    p = replace(layered(8, devices=3, memory=250.0), recompute=True)
    result = solve(p, effort=Effort.QUICK)
    first = next(step for step in result.trace if step.objective_s < float("inf"))
    assert first.member == "layer-split"
    assert first.bound_s == 0.0, "people wait for a first plan, not for a first bound"


@pytest.mark.parametrize(("stop", "limit_s", "reason"), [(True, 60.0, "CANCELLED"), (False, 1e-9, "TIME_LIMIT")])
def test_a_search_that_is_stopped_before_its_first_plan_ends_as_any_other(stop, limit_s, reason):
    p = layered(6, devices=3, memory=250.0, recompute=True)
    result = solve(p, time_limit_s=limit_s, should_stop=lambda: stop)
    assert result.stop_reason == reason
