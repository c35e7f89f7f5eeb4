"""Interleaved pipelines: devices that run several stages of the model in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.eager_order import Waits
from solvers.flight_room import held_bytes, room_bytes
from solvers.orders import kinds_of
from solvers.patterns import interleave
from solvers.plan import Action, Stage
from solvers.problem import Problem
from solvers.stage_actions import Run, StageActions, stage_actions

Floats = NDArray[np.float64]

SHARES = (0.5, 0.6, 0.7, 0.85, 1.0)
"""Shares of what all stages of a device may keep by themselves that it keeps at most, smaller ones first."""
SAME = 1e-9
"""Relative difference of lengths that is none."""


def interleaved(problem: Problem, stages: Sequence[Stage], waits: Waits) -> list[list[Action]] | None:
    """Per device F and B of its stages (Narayanan et al., SC 2021, section 2.2).

    Stages dealt out to the devices in turn have the textbook's order, see `interleave`; where micro-batches
    are no multiple of the devices, that of the next multiple without what is too much. Others, and these
    too where it is shorter or where memory is too small, have that of an event simulation with the time
    transfers take, in which no stage keeps more than its in-flight number (or than the textbook) and a
    device no more than a share of the sum. Of all that fit the first of the shortest, with the textbook
    first and smaller shares before larger ones. None if all are stuck.
    """
    actions = stage_actions(problem, stages, split=False)
    held = held_bytes(problem, stages, actions.received_bytes)
    room = room_bytes(problem, stages, actions.received_bytes)
    limits = [[stage.in_flight for stage in stages]]
    best = None
    textbook = dealt_in_turn(problem, stages, waits)
    if textbook is not None:
        run = actions.follow(textbook)
        if run is not None and _fits(stages, most_held(stages, textbook), held, room):
            best = run
        limits.insert(0, most_held(stages, textbook))
    for run in _simulated(actions, limits, held, room):
        if best is None or run.length_s < best.length_s * (1 - SAME):
            best = run
    return None if best is None else actions.per_device(best)


def _simulated(actions: StageActions, limits: Sequence[Sequence[int]], held: Floats, room: Floats) -> Iterator[Run]:
    """What devices do that prefer forwards, or backwards, as far as limits and memory let them."""
    weights = held if held.max(initial=0.0) > 0 else np.ones(len(held))
    fits = False
    for allowed in limits:
        whole = _sums(actions.stages, np.array(allowed) * weights, actions.devices)
        for share in SHARES:
            budgets = share * whole if weights is not held else np.minimum(share * whole, room)
            for order in ("FB", "BF"):
                run = actions.run(order, allowed, weights=weights, budgets=budgets)
                if run is not None:
                    fits = True
                    yield run
    if not fits and (run := actions.run("BF", limits[-1])) is not None:  # for the judge to refuse
        yield run


def _fits(stages: Sequence[Stage], keeps: Sequence[int], held: Floats, room: Floats) -> bool:
    return bool((_sums(stages, np.array(keeps) * held, len(room)) <= room).all())


def _sums(stages: Sequence[Stage], amounts: Floats, devices: int) -> Floats:
    """What the stages of every device have together, [devices]."""
    total = np.zeros(devices)
    for index, stage in enumerate(stages):
        total[list(stage.devices)] += amounts[index]
    return total


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
        order = interleave(rank, several, chunks, whole_groups, trains=kinds == {"FB"})
        for device in stages[rank].devices:
            orders[device] = [action for action in order if action.micro_batch < micro_batches]
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
