"""What runs as one task when a plan runs: the units of a plan, as columns."""

from __future__ import annotations

from itertools import pairwise
from typing import NoReturn

import numpy as np

from solvers.errors import InvalidPlan
from solvers.evaluation.columns import PlanColumns, cluster_columns, graph_columns, plan_columns, rows_of
from solvers.evaluation.tasks import B, F, I, Rows, U, Units, W
from solvers.kernels.arrays import Bools, Floats, Ints, starts
from solvers.plan.order_check import check_order
from solvers.plan.plan import ACTION_KINDS, Plan
from solvers.problem.gathering import gathering
from solvers.problem.problem import Execution, Objective, Problem
from solvers.problem.training import ZERO_PARAMETERS

KINDS = len(ACTION_KINDS)


def units_of(problem: Problem, plan: Plan, objective: Objective, times: int = 1) -> Units:
    """The units of one iteration (ITERATION, MAX_LOAD) or of one unsplit pass (MAKESPAN).

    In the unsplit pass the actions of micro-batch 0 run with the whole mini-batch. times: how many times as many
    replicas divide micro-batches as the plan has (`plan.alike`). Raises InvalidPlan if the order is not whole
    (`order_check.check_order`).
    """
    columns, stages = plan_columns(plan), len(plan.stages)
    if len(plan.order) != len(problem.cluster) or not _in_range(columns.action_stage, stages):
        refuse(problem, plan, objective)
    single = objective is Objective.MAKESPAN
    samples = np.full(stages, problem.mini_batch) if single else columns.micro_batch_size
    if (problem.mini_batch % samples).any():
        refuse(problem, plan, objective)
    on_cpu = cluster_columns(problem.cluster).is_cpu[columns.device[columns.device_start[:-1]]]
    by_operator = np.full(stages, single and problem.execution is Execution.OPERATOR) | (single & on_cpu)
    present = np.zeros((stages, KINDS), np.bool_)
    present[columns.action_stage, columns.action_kind] = True
    entry_kind = _kinds_of_entries(problem, columns, present)
    if (entry_kind < 0).any():
        refuse(problem, plan, objective)

    entry = columns.stage * KINDS + entry_kind  # of a stage and kind are one unit, or one for each operator
    order = np.argsort(entry, kind="stable")
    member, entry = columns.operator[order], entry[order]
    held = np.bincount(entry, minlength=stages * KINDS)
    first = starts(np.where(np.repeat(by_operator, KINDS), held, 1) * present.ravel())
    stage, kind = np.divmod(np.repeat(np.arange(stages * KINDS), np.diff(first)), KINDS)
    member_unit = first[entry] + by_operator[entry // KINDS] * (np.arange(len(member)) - starts(held)[entry])
    member_start = starts(np.bincount(member_unit, minlength=len(stage)))
    alone = by_operator[stage]
    operator = np.full(len(stage), -1, np.int64)
    operator[alone] = member[member_start[:-1][alone]]

    starts_backward = (kind == B) | (kind == I) | ((kind == W) & ~present[stage, I])
    leads = np.arange(len(stage)) == first[stage * KINDS + kind]
    size = np.where(kind == U, problem.mini_batch, samples[stage])
    group_of_stage, group_start, group_device = _groups(columns)
    group, width = group_of_stage[stage], np.diff(group_start)
    keys, place = np.unique(group * (problem.mini_batch + 1) + size, return_inverse=True)
    return Units(
        stage=stage,
        kind=kind,
        operator=operator,
        samples=size,
        micro_batches=problem.mini_batch // size,
        call=np.full(len(stage), single) & ~on_cpu[stage] & ~alone,
        again=columns.recompute[stage] & starts_backward & leads,
        group=group,
        place=place.astype(np.int64),
        place_group=keys // (problem.mini_batch + 1),
        group_start=group_start,
        group_device=group_device,
        replicas=width * times,
        member_start=member_start,
        member=member,
        home_start=starts(np.bincount(member, minlength=len(problem.graph))),
        home=member_unit[np.argsort(member, kind="stable")],
        slot=starts(problem.mini_batch // size * width[group]),
    )


def _in_range(numbers: Ints, count: int) -> bool:
    return bool(numbers.min(initial=0) >= 0 and numbers.max(initial=0) < count)


def refuse(problem: Problem, plan: Plan, objective: Objective) -> NoReturn:
    """Say what is wrong with an order."""
    check_order(problem, plan, objective)
    raise InvalidPlan("the order does not run what the stages hold; plan again")


def _kinds_of_entries(problem: Problem, columns: PlanColumns, present: Bools) -> Ints:
    """The kind of action that runs each operator of each stage; -1 where none does, or two would."""
    whole, parts = present[:, B], present[:, I] | present[:, W]
    kind_of = np.empty((len(present), 4), np.int64)
    kind_of[:, 0], kind_of[:, 3] = F, U
    kind_of[:, 1], kind_of[:, 2] = np.where(whole, B, I), np.where(whole, B, W)
    kind_of[whole & parts] = -1
    kind = kind_of[columns.stage, graph_columns(problem.graph).phase[columns.operator]]
    return np.where(present[columns.stage, kind], kind, -1)


def _groups(columns: PlanColumns) -> tuple[Ints, Ints, Ints]:
    """(group of each stage, start, devices): distinct groups of devices in their order."""
    start = columns.device_start
    devices = [tuple(columns.device[a:b].tolist()) for a, b in pairwise(start.tolist())]
    distinct = sorted(set(devices))
    number = {group: i for i, group in enumerate(distinct)}
    return np.array([number[group] for group in devices], np.int64), *rows_of(distinct)


def seconds_of(problem: Problem, units: Units) -> Floats:
    """Seconds of one task of every unit on a device of every kind, [kinds, units]: kinds in the order in which
    the cluster's devices first name them. inf: it cannot run there."""
    kinds = list(dict.fromkeys(device.kind for device in problem.cluster.devices))
    share = units.samples / units.replicas[units.group]
    unit_of = np.repeat(np.arange(len(units.stage)), np.diff(units.member_start))
    entry_share = share[unit_of]
    forward = units.kind[unit_of] == F
    total = np.empty((len(kinds), len(units.stage)))
    for row, kind in enumerate(kinds):
        each = np.empty(len(unit_of))
        for samples in np.unique(share):
            chosen = entry_share == samples
            each[chosen] = problem.compute.at(kind, float(samples))[units.member[chosen]]
        total[row] = np.bincount(unit_of, each, minlength=len(units.stage))
        if units.again.any():
            stage = units.stage[unit_of]
            forwards = np.bincount(stage[forward], each[forward], minlength=int(units.stage.max()) + 1)
            total[row, units.again] += forwards[units.stage[units.again]]
    return total


def with_gathers(problem: Problem, plan: Plan, units: Units, rows: Rows, seconds: Floats) -> Floats:
    """Seconds of the compute rows of an iteration, [rows], with what they wait for parameters: a forward, and the
    action that begins a backward (`Gathering`). Raises NoLink."""
    if problem.copies.zero < ZERO_PARAMETERS:
        return seconds
    total_s = seconds.copy()
    stage, kind = units.stage[rows.unit], units.kind[rows.unit]
    for number, each in enumerate(plan.stages):
        gathers = gathering(problem, each.operators, each.devices)
        if gathers is None:
            continue
        of_stage = stage == number
        has_inputs = bool((kind[of_stage] == I).any())
        backward = of_stage & ((kind == B) | (kind == I) | ((kind == W) & (not has_inputs)))
        forward = of_stage & (kind == F)
        total_s[forward] = gathers.first_s + np.maximum(seconds[forward], gathers.after_first_s)
        total_s[backward] = gathers.last_s + np.maximum(seconds[backward], gathers.before_last_s)
    return total_s
