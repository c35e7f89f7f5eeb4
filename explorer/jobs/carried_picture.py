"""The plan on the page, taken over to the next question: something to look at while that is searched.

It is a picture only. The search does not start from it, so that a question has the same answer whatever was asked
before; where what was taken over happens to be better, the answer says so.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace

from explorer.jobs.held_plans import file_of
from explorer.words import text
from solvers.errors import PlacementError
from solvers.evaluation.evaluate import judge
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.planners.carry import carried
from solvers.problem.problem import Problem

WORTH_SAYING = 0.002
"""Relative difference from which on a plan is better to people."""
LONGEST_S = 1.0
"""Beyond this the search shows something of its own soon."""


def carried_picture(problem: Problem, held: str) -> tuple[Plan, float] | None:
    """The plan that is held by that name as one for ``problem``, with its objective in seconds; None if it is of
    another graph, fits no more, or is held no longer."""
    began = time.perf_counter()
    try:
        file = file_of(held)
        if file.problem.graph is not problem.graph and file.problem.graph != problem.graph:
            return None  # equal ones are two where another worker found the plan
        for plan in carried(problem, file.plan):
            judged = judge(problem, plan)
            if judged.feasible and math.isfinite(judged.objective_s):
                return plan, judged.objective_s
            if time.perf_counter() - began > LONGEST_S:
                return None
    except PlacementError:
        pass
    return None


def told_beside(outcome: Result, carried_s: float) -> Result:
    """The answer, with a note where the plan that was taken over is better than what the search found."""
    if outcome.plan is None or carried_s >= outcome.objective_s * (1 - WORTH_SAYING):
        return outcome
    better = text.percent(1 - carried_s / outcome.objective_s)
    note = f"the plan from before, taken over to this question, is {better} faster: more effort may find it or better"
    return replace(outcome, notes=(*outcome.notes, note))
