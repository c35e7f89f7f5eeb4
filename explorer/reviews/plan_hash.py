"""The name of a plan: equal questions with equal answers have equal ones, whoever found them and when."""

from __future__ import annotations

import hashlib
import json

from solvers.formats.json_text import dump_json
from solvers.formats.plan_json import write_plan
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem

_NAMED = ("graph_sha256", "problem", "plan")


def plan_hash(problem: Problem, plan: Plan) -> str:
    """sha256, in hex, of what a plan.json says of graph, problem and plan. Its result and reference do not count."""
    told = json.loads(write_plan(problem, plan))
    return hashlib.sha256(dump_json({key: told[key] for key in _NAMED}).encode()).hexdigest()
