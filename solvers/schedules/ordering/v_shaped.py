"""Pipelines in a V: orders for devices that hold one stage on the way down the devices and one on the way back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.problem import IN_A_V, Pipeline, Problem
from solvers.schedules.ordering.eager_order import Waits
from solvers.schedules.ordering.flight_room import Room
from solvers.schedules.ordering.patterns import most_held
from solvers.schedules.ordering.stage_actions import Run, StageActions, shortest_first, splits, stage_actions
from solvers.schedules.ordering.v_patterns import v_orders
from solvers.schedules.ordering.zero_bubble import PATIENCE

MOST_SEARCHED = 8000
"""Stages x micro-batches up to which every pattern is tried where the pipeline is left open: those of a third and a
half of the memory take up to two seconds to make there, once."""


def v_shaped(problem: Problem, stages: Sequence[Stage], waits: Waits) -> tuple[StageActions, list[Run]] | None:
    """F, I and W (or B, where the graph has no gradients of parameters apart) of stages in a V, the shortest run first;
    None if they are not.

    The patterns of `v_orders`, that of the pipeline or, with ZERO_BUBBLE, each; and event simulations with the time
    that transfers take, in which neither a stage nor a device holds more than in the pattern. Of equally long ones the
    pattern is first.
    """
    if not in_a_v(problem, stages, waits):
        return None
    actions = stage_actions(problem, stages, split=splits(problem.graph))
    room = Room(problem, stages, actions.received_bytes, actions.waiting_bytes)
    weights = room.held_bytes if room.held_bytes.max(initial=0.0) > 0 else np.ones(len(stages))
    small = len(stages) * problem.mini_batch // stages[0].micro_batch_size <= MOST_SEARCHED
    every = IN_A_V if small else (Pipeline.ZB_V, Pipeline.DUAL_PIPE_V)
    patterns = {Pipeline.ZERO_BUBBLE: every, Pipeline.DUAL_PIPE: (Pipeline.DUAL_PIPE_V,)}
    runs: list[Run | None] = []
    starts: list[tuple[list[int], list[float], float]] = []
    for pattern in patterns.get(problem.pipeline, (problem.pipeline,)):
        orders = _orders(problem, stages, actions, pattern)
        runs.append(actions.follow(orders))
        held = most_held(stages, orders)
        budget = [_most_weighed(row, weights.tolist()) for row in orders]
        starts += [(held, budget, patience) for patience in PATIENCE]
    for held, budget, patience in actions.affordable(starts):
        order = "IFW" if actions.waiting_bytes.any() or splits(problem.graph) else "BF"
        runs.append(actions.run(order, held, weights=weights, budgets=np.array(budget) * (1 + 1e-9), patience=patience))
    return actions, shortest_first(runs)


def in_a_v(problem: Problem, stages: Sequence[Stage], waits: Waits) -> bool:
    """Whether stages are a chain of one micro-batch size, the s-th from the start beside the s-th from the end, each
    pair on devices of its own: two replicas in opposite directions for DUAL_PIPE."""
    half, odd = divmod(len(stages), 2)
    if odd or not problem.has_backward() or len({stage.micro_batch_size for stage in stages}) > 1:
        return False
    used = [device for stage in stages[:half] for device in stage.devices]
    if len(set(used)) < len(used):
        return False
    if any(set(a.devices) != set(b.devices) for a, b in zip(stages, reversed(stages), strict=True)):
        return False
    if problem.pipeline is Pipeline.DUAL_PIPE and any(len(stage.devices) != 2 for stage in stages):
        return False
    downstream = all(s < index for index, sources in enumerate(waits["F", "F"]) for s in sources)
    upstream = all(s > index for index, sources in enumerate(waits["B", "B"]) for s in sources)
    return downstream and upstream


def is_pattern(problem: Problem, plan: Plan, pipeline: Pipeline) -> bool:
    """Whether the devices of a plan in a V do what the pattern of a pipeline says, updates left out."""
    actions = stage_actions(problem, plan.stages, split=splits(problem.graph))
    rows = [[action for action in row if action.kind != "U"] for row in plan.order]
    return rows == _orders(problem, plan.stages, actions, pipeline)


def v_in_flight(pipeline: Pipeline, devices: int, micro_batches: int) -> list[int]:
    """What every stage of a V holds in the pattern of a pipeline, [2 devices] micro-batches."""
    held = [[0, 0] for _ in range(devices)]
    most = [[1, 1] for _ in range(devices)]
    for rank, row in enumerate(v_orders(pipeline, devices, micro_batches)):
        for leg, kind, _ in row:
            held[rank][leg] += (kind == "F") - (kind == "W")
            most[rank][leg] = max(most[rank][leg], held[rank][leg])
    return [down for down, _ in most] + [up for _, up in reversed(most)]


def _orders(problem: Problem, stages: Sequence[Stage], actions: StageActions, pattern: Pipeline) -> list[list[Action]]:
    """A pattern per device, without the parts that a stage does not have; B in place of I where it is whole."""
    half, rows = len(stages) // 2, set(actions.rows)
    orders: list[list[Action]] = [[] for _ in problem.cluster.devices]
    for rank, row in enumerate(v_orders(pattern, half, problem.mini_batch // stages[0].micro_batch_size)):
        legs = (rank, len(stages) - 1 - rank)
        whole = [(legs[leg], "B" if kind == "I" and (legs[leg], "B") in rows else kind, j) for leg, kind, j in row]
        order = [Action(stage, kind, j) for stage, kind, j in whole if (stage, kind) in rows]
        for device in stages[rank].devices:
            orders[device] = order
    return orders


def _most_weighed(order: Sequence[Action], weights: Sequence[float]) -> float:
    """The most that a device holds in an order, each micro-batch of a stage weighing what it does."""
    ends = {action.stage: action.kind for action in order}
    level = most = 0.0
    for action in order:
        level += weights[action.stage] * ((action.kind == "F") - (action.kind == ends[action.stage]))
        most = max(most, level)
    return most
