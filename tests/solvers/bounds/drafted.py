"""Bounds against plans drawn at random."""

from __future__ import annotations

import random

from solvers.errors import InvalidPlan
from solvers.evaluation.evaluate import judge
from solvers.problem.problem import Problem
from solvers.schedules.realise import realise
from tests.random_problems import random_draft

ROUNDING = 1 + 1e-9
PLANS = 6
"""Drawn for a problem; those that break a rule, or do not fit, count for nothing."""


def assert_no_draft_beats(bound_s: float, problem: Problem, rng: random.Random) -> None:
    for _ in range(PLANS):
        try:
            judged = judge(problem, realise(problem, random_draft(rng, problem)))
        except InvalidPlan:
            continue
        if judged.feasible:
            assert bound_s <= judged.objective_s * ROUNDING
