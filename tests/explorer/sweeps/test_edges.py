"""Edges of stages: what moves is the module at the edge, to the stage on its other side."""

from __future__ import annotations

import pytest

from explorer.sweeps.edges import edge_moves, module_name
from explorer.sweeps.why_here import edges, why_here
from solvers.evaluation.evaluate import evaluate
from solvers.planners.check import check
from tests.explorer.view.small import chain_problem, even_plan


def test_both_edges_of_a_stage_move_a_module_each_way():
    p = chain_problem()
    plan = even_plan(p)
    moves = list(edge_moves(p, plan, plan.stages[1].operators[:1]))
    assert [(one.module, one.to) for one in moves] == [
        ("blocks.1", (1,)), ("blocks.2", (0,)), ("blocks.3", (2,)), ("blocks.4", (1,))
    ]  # fmt: skip
    for one in moves:
        moved = {p.graph.operators[o].module_path for o in one.operators}
        assert {module_name(path) for path in moved} == {one.module}


def test_the_first_stage_has_one_edge_and_what_spans_stages_none():
    p = chain_problem()
    plan = even_plan(p)
    assert [one.module for one in edge_moves(p, plan, plan.stages[0].operators)] == ["blocks.1", "blocks.2"]
    assert list(edge_moves(p, plan, [plan.stages[0].operators[0], plan.stages[1].operators[0]])) == []


def test_what_an_edge_costs_is_what_the_moved_plan_takes():
    p = chain_problem()
    plan = even_plan(p)
    before_s = evaluate(p, plan).objective_s(p.objective)
    rows = list(edges(p, plan, plan.stages[1].operators))
    assert [row.name for row in rows][:2] == ["blocks.1 to GPU 1", "blocks.2 to GPU 0"]
    for row in rows:
        assert check(p, row.plan) == ()
        assert row.delta_s == pytest.approx(evaluate(p, row.plan).objective_s(p.objective) - before_s, abs=1e-12)
    assert "edge: blocks.1 to GPU 1" in str(why_here(p, plan, plan.stages[1].operators))


@pytest.mark.parametrize(("path", "name"), [("blocks.7.attn.qkv", "blocks.7"), ("head", "head"), ("a.b.3.4", "a.b.3")])
def test_modules_are_elements_of_lists(path, name):
    assert module_name(path) == name
