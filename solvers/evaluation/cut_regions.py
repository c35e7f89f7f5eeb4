"""What parts of regions keep where a plan cuts them: what they read of stages on their own devices."""

from __future__ import annotations

import numpy as np

from solvers.evaluation.columns import graph_columns, plan_columns
from solvers.evaluation.tasks import Units
from solvers.kernels.arrays import Floats, Ints
from solvers.plan.plan import Plan
from solvers.problem.graph import OpGraph, per_graph
from solvers.problem.problem import Problem
from solvers.problem.regions import readings


def parts_of_regions_keep(problem: Problem, plan: Plan, units: Units, share: Floats) -> Floats:
    """[units] B that a forward task keeps until the backward of the same micro-batch, as part of a region runs again
    from it: what was made on its stage's devices, by no operator that runs again there, and is among what no operator
    of the stage saves. What comes from other devices is there as it was received. share: samples of a task, [units].
    """
    kept = np.zeros(len(units.stage))
    tensor, producer, reader, counted = _columns(problem.as_traced.graph)
    if not len(tensor):
        return kept
    columns = plan_columns(plan)
    stage_of = np.full(len(problem.graph) + 1, -1, np.int64)  # the last is that of no operator
    stage_of[columns.operator] = columns.stage
    group_of_stage = np.zeros(len(plan.stages), np.int64)
    group_of_stage[units.stage] = units.group
    made_on = np.zeros((len(units.group_start) - 1, len(problem.graph)), np.bool_)
    made_on[group_of_stage[columns.stage], columns.operator] = True
    stage = stage_of[reader]
    again = np.array([s.recompute for s in plan.stages], np.bool_)
    wanted = made_on[group_of_stage[stage], producer] & ~again[stage] & (stage_of[counted] != stage)
    wanted &= (counted >= 0) | (stage_of[producer] != stage)
    unit = units.home[units.home_start[reader[wanted]]]
    pairs = np.unique(np.stack([unit, tensor[wanted]]), axis=1)
    amounts = graph_columns(problem.graph).tensor_bytes[pairs[1]]
    np.add.at(kept, pairs[0], amounts[:, 0] + amounts[:, 1] * share[pairs[0]])
    return kept


@per_graph
def _columns(graph: OpGraph) -> tuple[Ints, Ints, Ints, Ints]:
    """tensor, producer, reader and the operator whose saved bytes the tensor is among, [readings]."""
    rows = [(r.tensor, r.producer, r.reader, r.counted) for r in readings(graph)]
    tensor, producer, reader, counted = np.array(rows, np.int64).reshape(-1, 4).T
    return tensor, producer, reader, counted
