"""What runs as one task when a plan runs: a stage's action, or a single operator."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from solvers.errors import InvalidPlan
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.graph import Phase
from solvers.problem.problem import Execution, Objective, Problem

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
    mini-batch. Raises InvalidPlan if an action is not needed, missing or repeated.
    """
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
        if problem.mini_batch % size:
            raise InvalidPlan(
                f"stage {index}: the mini-batch of {problem.mini_batch} samples does not divide into"
                f" micro-batches of {size}"
            )
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
    _check_complete(problem, plan, units, order)
    return Pass(tuple(units), tuple(order))


def _check_complete(problem: Problem, plan: Plan, units: list[Unit], order: list[tuple[tuple[int, int], ...]]) -> None:
    needed = {(u, j, d) for u, unit in enumerate(units) for j in range(unit.count) for d in unit.devices}
    seen: set[tuple[int, int, int]] = set()
    for device, tasks in enumerate(order):
        for unit, micro_batch in tasks:
            task = (unit, micro_batch, device)
            text = Action(units[unit].stage, units[unit].kind, micro_batch)
            if task in seen:
                raise InvalidPlan(f"device {device}: action {text} is in the order twice")
            if task not in needed:
                raise InvalidPlan(f"device {device}: action {text} does not belong there")
            seen.add(task)
    missing = needed - seen
    if missing:
        unit, micro_batch, device = min(missing)
        text = Action(units[unit].stage, units[unit].kind, micro_batch)
        raise InvalidPlan(f"device {device}: action {text} is missing from the order")
    covered = {o for unit in units for o in unit.operators}
    for index, stage in enumerate(plan.stages):
        for operator in stage.operators:
            if operator not in covered:
                name = problem.graph.operators[operator].name
                raise InvalidPlan(f"stage {index}: no action in the order runs operator {name!r}")
