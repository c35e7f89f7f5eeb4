"""Plans to run: of a demo under settings, of one kind or another."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.formats.plan_json import write_plan
from solvers.formats.workload import Workload
from solvers.plan.plan import Plan
from solvers.plan.segments import Place
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Objective, Problem
from solvers.schedules.assemble import assemble


@cache
def workload(model: str, training: bool = True) -> Workload:
    return load(model, training=training)


def problem_of(model: str, training: bool = True, **settings: Any) -> Problem:
    return make_problem(workload(model, training), Settings(**settings))


def solved(problem: Problem, planner: Any, time_limit_s: float = 20.0) -> Plan:
    plan = solve(problem, planner, time_limit_s=time_limit_s).plan
    assert plan is not None
    return plan


def placed(problem: Problem, places: Sequence[int | Place], micro_batches: int) -> Plan:
    """The plan of a placement of forward operators: devices by position; mirrors go with them."""
    operators = problem.graph.operators
    forward = [place if isinstance(place, tuple) else (place,) for place in places]
    whole = [forward[i if o.forward_of is None else o.forward_of] for i, o in enumerate(operators)]
    return assemble(problem, whole, micro_batches)


def random_places(problem: Problem, devices: int, choose: random.Random) -> list[tuple[int, ...]]:
    """A device for every forward operator, or a pair of replicas; those that read one parameter together."""
    together: dict[str, tuple[int, ...]] = {}
    places = []
    pairs = [(d,) for d in range(devices)] + ([(0, 1)] if devices > 2 else [])
    for operator in problem.graph.operators:
        if operator.forward_of is None:
            place = choose.choice(pairs)
            places.append(place if operator.colocation is None else together.setdefault(operator.colocation, place))
    return places


def text(problem: Problem, plan: Plan, model: str) -> str:
    return write_plan(problem, plan, None, model)


__all__ = ["Contiguity", "Objective", "placed", "problem_of", "random_places", "solved", "text", "workload"]
