"""Lays a run over its prediction."""

from __future__ import annotations

from explorer.measured.comparison import Comparison
from explorer.runner.outcome import Outcome
from solvers.plan import Plan
from solvers.problem import Problem


def compare_run(problem: Problem, plan: Plan, outcome: Outcome) -> Comparison:
    """A run of ``plan`` beside its prediction under ``problem``.

    Raises RunError, in one line, if the outcome holds no measured iteration, and InvalidPlan if it names
    segments, stages or devices that the plan does not have.
    """
    raise NotImplementedError
