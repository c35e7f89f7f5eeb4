"""How many ways a plan divides work."""

from __future__ import annotations

import math
from dataclasses import dataclass

from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class DegreePlan:
    """The best plan that was found with one degree of each kind.

    data: replicas of every stage. tensor: devices over which tensors are divided. pipeline: stages. objective_s and
    peak_bytes (of the fullest device): inf without a plan; reason: why there is none, "" with one.
    """

    data: int
    tensor: int
    pipeline: int
    objective_s: float = math.inf
    peak_bytes: float = math.inf
    reason: str = ""


def degrees_of(problem: Problem, plan: Plan) -> tuple[int, int, int] | None:
    """(data, tensor, pipeline) of a plan; None where its stages differ."""
    replicas = {len(stage.devices) for stage in plan.stages}
    if len(replicas) > 1 or len(set(problem.graph.degrees)) > 1:
        return None
    return replicas.pop(), problem.graph.tensor_parallel, pipeline_depth(problem, plan)


def tensor_degrees(problem: Problem, plan: Plan) -> list[int]:
    """Of every stage, over how many devices its tensors are divided."""
    degrees = problem.graph.degrees
    return [degrees[stage.operators[0]] for stage in plan.stages]


def pipeline_depth(problem: Problem, plan: Plan) -> int:
    """Stages with forwards on the longest way through the model."""
    operators = problem.graph.operators
    stage_of = {operator: number for number, stage in enumerate(plan.stages) for operator in stage.operators}
    depth: dict[int, int] = {}
    for operator in problem.graph.topological_order:
        if operators[operator].phase is not Phase.FORWARD:
            continue
        before = [
            depth[p] + (stage_of[p] != stage_of[operator]) for p in problem.graph.predecessors[operator] if p in depth
        ]
        depth[operator] = max(before, default=1)
    return max(depth.values(), default=1)
