"""Interleaved pipelines: devices that run several stages of the model in turn."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from solvers.plan.plan import Action, Stage
from solvers.problem.problem import Pipeline, Problem
from solvers.schedules.ordering.eager_order import Waits
from solvers.schedules.ordering.flight_room import Room
from solvers.schedules.ordering.orders import kinds_of
from solvers.schedules.ordering.patterns import breadth_first, interleave, most_held
from solvers.schedules.ordering.stage_actions import Run, StageActions, shortest_first, stage_actions

SHARES = (1.0, 0.5, 0.6, 0.7, 0.85)
"""Shares of what all stages of a device may keep by themselves that it keeps at most."""


def interleaved(problem: Problem, stages: Sequence[Stage], waits: Waits) -> tuple[StageActions, list[Run]]:
    """F and B of stages that share devices (Narayanan et al., SC 2021, section 2.2), the shortest run first.

    Stages dealt out to the devices in turn have the textbook's order, see `interleave`; where micro-batches
    are no multiple of the devices, that of the next multiple without what is too much. They and others too
    have those of event simulations with the time transfers take, in which no stage keeps more than its
    in-flight number (or than the textbook) and a device no more than a share of the sum. Of equally long
    ones the textbook is first. LOOPED_BFS has its textbook's order, see `breadth_first`, and no other.
    """
    actions = stage_actions(problem, stages, split=False)
    if problem.pipeline is Pipeline.LOOPED_BFS:
        orders = dealt_in_turn(problem, stages, waits)
        return actions, shortest_first([None if orders is None else actions.follow(orders)])
    room = Room(problem, stages, actions.received_bytes, actions.waiting_bytes)
    limits = [[stage.in_flight for stage in stages]]
    runs: list[Run | None] = []
    textbook = dealt_in_turn(problem, stages, waits)
    if textbook is not None:
        runs.append(actions.follow(textbook))
        limits.insert(0, most_held(stages, textbook))
    weights = room.held_bytes if room.held_bytes.max(initial=0.0) > 0 else np.ones(len(stages))
    starts = list(itertools.product(limits, SHARES, ("FB", "BF")))
    for allowed, share, order in actions.affordable(starts):
        whole = np.zeros(actions.devices)
        for stage, most, weight in zip(stages, allowed, weights.tolist(), strict=True):
            whole[list(stage.devices)] += most * weight
        runs.append(actions.run(order, allowed, weights=weights, budgets=share * whole))
    return actions, shortest_first(runs)


def dealt_in_turn(problem: Problem, stages: Sequence[Stage], waits: Waits) -> list[list[Action]] | None:
    """The textbook's order per device, or None if these stages are not a chain dealt out in turn."""
    several = next((i for i, stage in enumerate(stages) if i and stage.devices == stages[0].devices), len(stages))
    size = stages[0].micro_batch_size
    micro_batches = problem.mini_batch // size
    kinds = {kinds_of(problem, stage).replace("U", "") for stage in stages}
    if several == len(stages) or len(stages) % several or len(kinds) > 1:
        return None
    for index, stage in enumerate(stages):
        if stage.devices != stages[index % several].devices or stage.micro_batch_size != size:
            return None
    used = [device for stage in stages[:several] for device in stage.devices]
    downstream = all(s < index for index, sources in enumerate(waits["F", "F"]) for s in sources)
    upstream = all(s > index for index, sources in enumerate(waits["B", "B"]) for s in sources)
    across = all(s <= index for index, sources in enumerate(waits["F", "B"]) for s in sources)
    if len(set(used)) < len(used) or not (downstream and upstream and across):
        return None
    whole_groups = -(-micro_batches // several) * several
    orders: list[list[Action]] = [[] for _ in problem.cluster.devices]
    for rank in range(several):
        chunks = range(rank, len(stages), several)
        if problem.pipeline is Pipeline.LOOPED_BFS:
            order = breadth_first(chunks, micro_batches, trains=kinds == {"FB"})
        else:
            order = interleave(rank, several, chunks, whole_groups, trains=kinds == {"FB"})
        for device in stages[rank].devices:
            orders[device] = [action for action in order if action.micro_batch < micro_batches]
    return orders


def textbook_in_flight(devices: int, chunks: int, micro_batches: int) -> list[int]:
    """In-flight numbers of the textbook's order for a chain of ``chunks`` stages a device, [stages]."""
    count = devices * chunks
    whole_groups = -(-micro_batches // devices) * devices
    orders = [interleave(rank, devices, range(rank, count, devices), whole_groups) for rank in range(devices)]
    stages = [Stage((0,), (index % devices,)) for index in range(count)]
    return [min(most, micro_batches) for most in most_held(stages, orders)]
