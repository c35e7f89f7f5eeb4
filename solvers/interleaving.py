"""Interleaved pipelines: devices that run several stages of the model in turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.eager_order import Waits
from solvers.flight_room import held_bytes, room_bytes
from solvers.orders import kinds_of
from solvers.patterns import interleave
from solvers.plan import Action, Stage
from solvers.problem import Problem
from solvers.stage_actions import StageActions, stage_actions

SHARES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of what all stages of a device may keep by themselves that it keeps at most, smaller ones first."""
SAME = 1e-9
"""Relative difference of lengths that is none."""


def interleaved(problem: Problem, stages: Sequence[Stage], waits: Waits) -> list[list[Action]] | None:
    """Per device F and B of its stages (Narayanan et al., SC 2021, section 2.2).

    Stages dealt out to the devices in turn have the textbook's order, see `interleave`, if micro-batches are
    a multiple of the devices and memory allows. Otherwise an event simulation with the time transfers take,
    backwards first, in which no stage keeps more than its in-flight number and a device keeps no more than
    a share of the sum: of several shares the first of the shortest. None if that is stuck.
    """
    actions = stage_actions(problem, stages, split=False)
    held = held_bytes(problem, stages, actions.received_bytes)
    room = room_bytes(problem, stages, actions.received_bytes)
    textbook = dealt_in_turn(problem, stages, waits)
    if textbook is not None:
        keeps = np.array(most_held(stages, textbook))
        needs = np.zeros(len(room))
        for index, stage in enumerate(stages):
            needs[list(stage.devices)] += keeps[index] * held[index]
        if (needs <= room).all():
            return textbook
    return _simulated(actions, held, room)


def _simulated(actions: StageActions, held: np.ndarray, room: np.ndarray) -> list[list[Action]] | None:
    stages = actions.stages
    limits = [stage.in_flight for stage in stages]
    weights = held if held.max(initial=0.0) > 0 else np.ones(len(stages))
    whole = np.zeros(actions.devices)
    for limit, weight, stage in zip(limits, weights.tolist(), stages, strict=True):
        whole[list(stage.devices)] += limit * weight
    best = None
    for share in SHARES:
        budgets = share * whole if weights is not held else np.minimum(share * whole, room)
        run = actions.run("BF", limits, weights=weights, budgets=budgets)
        if run is not None and (best is None or run.length_s < best.length_s * (1 - SAME)):
            best = run
    best = best or actions.run("BF", limits)
    return None if best is None else per_device(stages, best.tasks, actions.devices)


def dealt_in_turn(problem: Problem, stages: Sequence[Stage], waits: Waits) -> list[list[Action]] | None:
    """The textbook's order per device, or None if these stages are not a chain dealt out in turn."""
    several = next((i for i, stage in enumerate(stages) if i and stage.devices == stages[0].devices), len(stages))
    size = stages[0].micro_batch_size
    micro_batches = problem.mini_batch // size
    kinds = {kinds_of(problem, stage).replace("U", "") for stage in stages}
    if several == len(stages) or len(stages) % several or micro_batches % several or len(kinds) > 1:
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
    orders: list[list[Action]] = [[] for _ in problem.cluster.devices]
    for rank in range(several):
        chunks = range(rank, len(stages), several)
        for device in stages[rank].devices:
            orders[device] = interleave(rank, several, chunks, micro_batches, trains=kinds == {"FB"})
    return orders


def per_device(stages: Sequence[Stage], tasks: Sequence[Action], devices: int) -> list[list[Action]]:
    """Tasks, as they start, on each device."""
    orders: list[list[Action]] = [[] for _ in range(devices)]
    for task in tasks:
        for device in stages[task.stage].devices:
            orders[device].append(task)
    return orders


def most_held(stages: Sequence[Stage], orders: Sequence[Sequence[Action]]) -> list[int]:
    """Most micro-batches of every stage that an order has between a forward and the last part of its
    backward, at least 1, [stages]."""
    most = [1] * len(stages)
    for index, stage in enumerate(stages):
        mine = [action.kind for action in orders[stage.devices[0]] if action.stage == index]
        closing = "W" if "W" in mine else "I" if "I" in mine else "B"
        if "F" not in mine or closing not in mine:
            continue
        held = 0
        for kind in mine:
            held += (kind == "F") - (kind == closing)
            most[index] = max(most[index], held)
    return most
