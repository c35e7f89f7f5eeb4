"""How many ways a plan shares work out: stages one after the other, and what members of tensor-parallel groups send."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem


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


def group_sent_bytes(problem: Problem, plan: Plan) -> Sequence[float]:
    """Bytes which each member of a device's tensor-parallel group sends to the next in an iteration, [devices]."""
    sent = [0.0] * len(problem.cluster)
    operators = problem.graph.operators
    for stage in plan.stages:
        times = problem.mini_batch / stage.micro_batch_size / len(stage.devices)
        each = sum(
            operators[operator].exchanged_bytes.at(stage.micro_batch_size)
            * (1 if operators[operator].phase is Phase.UPDATE else times)
            for operator in stage.operators
        )
        for device in stage.devices:
            sent[device] += each
    return sent
