"""Operators of a plan in other places, where the plan says which of them run again."""

from __future__ import annotations

from dataclasses import replace

from explorer.sweeps.moved import company, moved_plans
from solvers.plan.plan import Region
from solvers.planners.check import check
from solvers.schedules.assemble import assemble
from tests.instances import problem, training_graph


def test_what_moves_runs_again_where_it_did() -> None:
    """Of a plan that says which operators run again; what becomes of their regions keeps the rules."""
    graph = training_graph([(i, i + 1) for i in range(5)], 6, nbytes=2.0, saved=4.0)
    p = problem(
        graph, [1.0] * 6 + [2.0] * 6, 2, mini_batch=4, micro_batches=4, bandwidth=100.0, recompute_operators=True
    )
    plan = assemble(p, [(0,)] * 3 + [(1,)] * 3 + [(0,)] * 3 + [(1,)] * 3, 4)
    first = replace(plan.stages[0], regions=(Region((0, 1, 2), (0,)),))
    plan = replace(plan, stages=(first, *plan.stages[1:]))
    assert check(p, plan) == ()
    moved = list(moved_plans(p, plan, company(p, [2]), (1,)))
    assert moved
    for other in moved:
        assert check(p, other) == ()
        assert {o for stage in other.stages for o in stage.again} <= {1, 2}
    assert any(stage.again == (1,) for other in moved for stage in other.stages)
