"""Is this a valid plan that fits? Simulate it and have the schedule verified."""

from __future__ import annotations

from solvers.errors import PlacementError
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Plan
from solvers.plan.regions import with_regions
from solvers.problem.problem import Objective, Problem
from solvers.verify import MOST, verify
from solvers.verify.division import division
from solvers.verify.structure import contiguity, structure


def check(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """Rules the plan breaks, or how its graph is divided; a sentence each; empty if it is a valid plan that fits.

    For max-load, which has no schedule of its own, that of an iteration is verified.
    """
    problem = with_regions(problem, plan)
    broken = [*division(problem.as_traced.graph), *structure(problem, plan)]
    if broken:
        return tuple(broken[:MOST])
    objective = Objective.ITERATION if problem.objective is Objective.MAX_LOAD else problem.objective
    try:
        schedule = simulate(problem, plan, objective)
    except PlacementError as error:
        return (*contiguity(problem, plan), str(error))
    return verify(problem, plan, schedule)
