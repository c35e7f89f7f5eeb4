"""The name of a plan: equal questions with equal answers have equal ones, whoever found them and when."""

from __future__ import annotations

import hashlib

from solvers.formats.json_text import dump_json
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.plan_json import plan_part
from solvers.formats.problem_json import problem_json
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem


def plan_hash(problem: Problem, plan: Plan) -> str:
    """sha256, in hex, of what a plan.json says of graph, problem and plan. Its result and reference do not count."""
    content = {
        "graph_sha256": graph_hash(problem.as_traced.graph), "problem": problem_json(problem), "plan": plan_part(plan)
    }  # fmt: skip
    return hashlib.sha256(dump_json(content).encode()).hexdigest()
