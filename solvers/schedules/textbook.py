"""A plan's stages in another order: as 1F1B runs them, and with more micro-batches in flight than that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from solvers.errors import InvalidPlan
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Plan
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.schedules.ordering.arrange import arranged
from solvers.schedules.ordering.in_flight import in_flight
from solvers.schedules.ordering.orders import stage_successors, stage_waits
from solvers.schedules.realise import realise

AHEAD = (0.5, 1.0, 2.0)
"""Micro-batches in flight beyond those of 1F1B, as a share of them, that are tried."""


def one_f_one_b(problem: Problem, plan: Plan, pipeline: Pipeline = Pipeline.ONE_F_ONE_B) -> Plan | None:
    """The same stages on the same devices, in the order of 1F1B, or of another pipeline of launchers (INTERLEAVED).

    None where there is no such order: outside of iterations with a backward, and where stages wait for each other.
    """
    if problem.objective is not Objective.ITERATION or not problem.has_backward():
        return None
    textbook = replace(problem, pipeline=pipeline)
    sets = [stage.operators for stage in plan.stages]
    sizes = [stage.micro_batch_size for stage in plan.stages]
    try:
        after = stage_successors(textbook, sets)
        most = in_flight(textbook, after, sizes, [1] * len(sets), _guests(plan))
        stages = [replace(stage, in_flight=held) for stage, held in zip(plan.stages, most, strict=True)]
        return arranged(textbook, stages, stage_waits(textbook.graph, sets))
    except InvalidPlan:
        return None


def is_one_f_one_b(problem: Problem, plan: Plan) -> bool:
    """Whether every device runs its actions in the order of 1F1B, as launchers do."""
    textbook = one_f_one_b(problem, plan)
    return textbook is not None and textbook.order == plan.order


def further_ahead(problem: Problem, plan: Plan) -> Iterator[Plan]:
    """The same stages, each on devices of its own, with more in flight than 1F1B keeps, and two at a time in a row."""
    used = [device for stage in plan.stages for device in stage.devices]
    if problem.objective is not Objective.ITERATION or not problem.has_backward() or len(used) > len(set(used)):
        return
    textbook = replace(problem, pipeline=Pipeline.K_F_K_B)
    for share, block in [(share, 1) for share in AHEAD] + [(0.0, 2)]:
        stages = tuple(
            DraftStage(
                stage.operators, stage.micro_batch_size, len(stage.devices), int(stage.recompute), block,
                math.ceil(share * stage.in_flight), regions=stage.regions,
            )
            for stage in plan.stages
        )  # fmt: skip
        try:
            yield realise(textbook, Draft(stages), [stage.devices for stage in plan.stages])
        except InvalidPlan:
            return


def _guests(plan: Plan) -> set[int]:
    """Stages on the devices of a larger one: operators that take next to no time."""
    hosts: dict[tuple[int, ...], int] = {}
    for index in sorted(range(len(plan.stages)), key=lambda i: -len(plan.stages[i].operators)):
        hosts.setdefault(plan.stages[index].devices, index)
    return set(range(len(plan.stages))) - set(hosts.values())
