"""Between a placement with orders and a plan: a stage for every forward operator with its mirrors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.joint.passes.arrays_kernel import PassState
from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Ints
from solvers.plan.plan import PHASES_OF, Action, Plan, Stage
from solvers.problem.graph import Phase

KIND_OF = {Phase.FORWARD: "F", Phase.BACKWARD_INPUT: "I", Phase.BACKWARD_WEIGHT: "W", Phase.UPDATE: "U"}
"""The action that runs an operator by itself."""


def plan_of(model: PassModel, place: Sequence[int] | Ints, sequences: Sequence[Sequence[int]]) -> Plan:
    """The plan in which every device runs its operators in the given sequence.

    place: the device of every group. sequences: operators per device. With several micro-batches asked for,
    the pass is repeated, micro-batch 0 last: it stands for the unsplit pass, and only then
    updates may run. Where one forward operator has several mirrors of one kind they run together, when the first
    of them is due.
    """
    problem = model.problem
    count = problem.micro_batches or 1
    size = problem.mini_batch // count
    operators = problem.graph.operators
    members: dict[int, list[int]] = {}
    for operator in model.order:
        forward = operators[operator].forward_of
        members.setdefault(operator if forward is None else forward, []).append(operator)
    number = {home: i for i, home in enumerate(members)}
    stages = tuple(Stage(tuple(m), (int(place[model.group_of[home]]),), size) for home, m in members.items())
    order = []
    for sequence in sequences:
        once: dict[tuple[int, str], None] = {}
        for operator in sequence:
            forward = operators[operator].forward_of
            home = operator if forward is None else forward
            once.setdefault((number[home], KIND_OF[operators[operator].phase]))
        repeated = [Action(stage, kind, j) for j in range(1, count) for stage, kind in once if kind != "U"]
        order.append((*repeated, *(Action(stage, kind) for stage, kind in once)))
    return Plan(stages, tuple(order))


def sequences_of(model: PassModel, state: PassState) -> list[list[int]]:
    """The operators of every device in the order in which a simulation began them, updates where they came."""
    sequences: list[list[int]] = [[] for _ in range(model.devices)]
    for operator in np.argsort(state.sequence, kind="stable").tolist():
        sequences[int(state.device[operator])].append(operator)
    return sequences


def fixed(model: PassModel, sequences: Sequence[Sequence[int]]) -> tuple[NDArray[np.float64], Ints]:
    """(rank, follow) as `run_pass` takes them, for a fixed sequence per device."""
    rank = np.zeros(model.operators)
    follow = np.full(model.operators, -1, np.int64)
    for sequence in sequences:
        rank[list(sequence)] = np.arange(len(sequence))
        follow[list(sequence[:-1])] = sequence[1:]
    return rank, follow


def taken_apart(model: PassModel, plan: Plan) -> tuple[Ints, list[list[int]]] | None:
    """(device of every group, operators per device in order) of a plan; None if a stage has replicas."""
    place = np.full(len(model.groups), -1, np.int64)
    for operator, devices in plan.placement().items():
        if len(devices) != 1:
            return None
        place[model.group_of[operator]] = devices[0]
    sequences: list[list[int]] = [[] for _ in range(model.devices)]
    for device, actions in enumerate(plan.order):
        for action in actions:
            if action.micro_batch == 0:
                phases = PHASES_OF[action.kind]
                of_stage = plan.stages[action.stage].operators
                sequences[device] += [o for o in of_stage if model.problem.graph.operators[o].phase in phases]
    return place, sequences
