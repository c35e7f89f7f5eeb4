"""Pins, groups kept together, caps by device and kinds, drawn at random: no member of `auto` is ahead of it."""

from __future__ import annotations

import pytest

from explorer.question.loading import load
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.search.effort import Effort
from tests.random_constraints import constrained

MEMBERS = ("equal", "layer-split", "linear-dp", "graph-pipeline", "annealing", "local-search")


@pytest.mark.first(1)
@pytest.mark.parametrize("seed", [10, 11, 18])
def test_no_member_is_ahead(seed: int) -> None:
    problem, words = constrained(load("gpt-small"), seed)
    result = solve(problem, effort=Effort.QUICK)
    able = [name for name in MEMBERS if PLANNERS[name]().unsupported(problem) is None]
    least_s = min(solve(problem, name, effort=Effort.QUICK).objective_s for name in able)
    assert result.objective_s <= least_s * 1.001, words
