"""What runs as one task when a plan runs: a stage's action, or a single operator."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from solvers.graph import Phase
from solvers.order_check import check_order
from solvers.plan import Plan, Stage
from solvers.problem import Execution, Objective, Problem

PHASES_OF = {
    "F": (Phase.FORWARD,),
    "B": (Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT),
    "I": (Phase.BACKWARD_INPUT,),
    "W": (Phase.BACKWARD_WEIGHT,),
    "U": (Phase.UPDATE,),
}
"""Which phases an action runs."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Operators that run as one task, once per micro-batch and replica.

    micro_batch_size: samples; an update has one "micro-batch", the whole mini-batch. count: how
    many micro-batches. call: transfers in and out are part of the task (CALL execution).
    operator: the position when the unit is a single operator, else -1. again: forward operators that
    run again first (recomputation).
    """

    stage: int
    kind: str
    operators: tuple[int, ...]
    devices: tuple[int, ...]
    micro_batch_size: int
    count: int
    call: bool = False
    operator: int = -1
    again: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """A plan unrolled into units, and the order of tasks (unit, micro-batch) on each device."""

    units: tuple[Unit, ...]
    order: tuple[tuple[tuple[int, int], ...], ...]


def operators_of_action(problem: Problem, stage: Stage, kind: str) -> tuple[int, ...]:
    """The operators a stage runs in an action of ``kind``, in order."""
    phases = PHASES_OF[kind]
    return tuple(o for o in stage.operators if problem.graph.operators[o].phase in phases)


def unroll(problem: Problem, plan: Plan, objective: Objective) -> Pass:
    """The units of one iteration (ITERATION, MAX_LOAD) or of one unsplit pass (MAKESPAN).

    In the unsplit pass the actions of micro-batch 0 run in the plan's order with the whole
    mini-batch. Raises InvalidPlan if the order is not whole (`order_check.check_order`).
    """
    check_order(problem, plan, objective)
    single = objective is Objective.MAKESPAN
    by_operator = single and problem.execution is Execution.OPERATOR
    units: list[Unit] = []
    unit_of: dict[tuple[int, str], tuple[int, ...]] = {}
    kinds_at: dict[tuple[int, int], set[str]] = defaultdict(set)  # kinds of actions by device and stage
    for device, actions in enumerate(plan.order):
        for action in actions:
            kinds_at[device, action.stage].add(action.kind)
    for index, stage in enumerate(plan.stages):
        kinds = {kind for d in stage.devices for kind in kinds_at[d, index]}
        size = problem.mini_batch if single else stage.micro_batch_size
        on_cpu = problem.cluster.devices[stage.devices[0]].is_cpu
        for kind in "FBIWU":
            if kind not in kinds:
                continue
            operators = operators_of_action(problem, stage, kind)
            b = problem.mini_batch if kind == "U" else size
            count = problem.mini_batch // b
            first = len(units)
            again: tuple[int, ...] = ()
            if stage.recompute and (kind in "BI" or (kind == "W" and "I" not in kinds)):
                again = operators_of_action(problem, stage, "F")
            if by_operator or (single and on_cpu):
                units.extend(
                    Unit(index, kind, (o,), stage.devices, b, count, False, o, () if n else again)
                    for n, o in enumerate(operators)
                )
            else:
                units.append(Unit(index, kind, operators, stage.devices, b, count, single and not on_cpu, again=again))
            unit_of[index, kind] = tuple(range(first, len(units)))
    order: list[tuple[tuple[int, int], ...]] = []
    for actions in plan.order:
        tasks: list[tuple[int, int]] = []
        for action in actions:
            if not single or action.micro_batch == 0:
                tasks.extend((u, action.micro_batch) for u in unit_of[action.stage, action.kind])
        order.append(tuple(tasks))
    return Pass(tuple(units), tuple(order))
