"""Zero-bubble pipelines: gradients of parameters fill the time in which a device would idle."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.plan.plan import Action, Stage
from solvers.problem.problem import Problem
from solvers.schedules.ordering.flight_room import Room
from solvers.schedules.ordering.patterns import alternate
from solvers.schedules.ordering.stage_actions import Run, StageActions, shortest_first, stage_actions

PATIENCE = (0.0, 0.5, 1.0)
"""Shares of its own seconds for which a gradient of parameters leaves its device to what comes next."""
LEVELS = (1.0, 1.5, 2.0)
"""Micro-batches in flight, as multiples of the most that 1F1B has anywhere: 1 is ZB-H1, 2 is ZB-H2."""


def zero_bubble(problem: Problem, stages: Sequence[Stage]) -> tuple[StageActions, list[Run]]:
    """F, I and W of stages (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024), the shortest run first.

    Event simulations with the time transfers take (section 3.1), in which a free device prefers gradients
    of inputs, then forwards, then gradients of parameters; those also run when the stage has as many
    micro-batches in flight (forward done, gradients of parameters not) as it may. ``stages`` say how many
    1F1B has; what the first stage has there every stage may have here (ZB-H1: memory is not above 1F1B's
    largest), and up to twice as many (ZB-H2), as far as memory allows or for the judge to see; with as many
    forwards before their gradients of inputs as 1F1B has or as the limit allows, and with several ways to
    decide whether a gap is worth filling. Among them are 1F1B with its backward in two parts and the
    handcrafted ZB-H1. Of equally long ones the handcrafted, and those with fewer in flight, are first.
    """
    actions = stage_actions(problem, stages, split=True)
    base = [stage.in_flight for stage in stages]
    sizes = [stage.micro_batch_size for stage in stages]
    room = Room(problem, stages, actions.received_bytes, actions.waiting_bytes)
    most = max(held * size for held, size in zip(base, sizes, strict=True))
    limits = [base]
    for level in LEVELS:
        samples = min(level * most, problem.mini_batch)
        wanted = [max(held, int(samples) // size) for held, size in zip(base, sizes, strict=True)]
        for allowed in (room.between(base, wanted), wanted):
            if allowed not in limits:
                limits.append(allowed)
    limits.sort(key=sum)
    runs = [actions.run("IWF", base) for _ in actions.affordable((0,))]
    runs += [_textbook(problem, actions, allowed) for allowed in limits]
    starts = [(allowed, ahead, p) for allowed in limits for ahead in (base, allowed) for p in PATIENCE]
    for allowed, ahead, patience in actions.affordable(starts):
        runs.append(actions.run("IFW", allowed, ahead=ahead, patience=patience))
    return actions, shortest_first(runs)


def _textbook(problem: Problem, actions: StageActions, limits: Sequence[int]) -> Run | None:
    """`alternate` in parts, with at most ``limits`` in flight, [stages], if every stage has its own devices."""
    orders: list[list[Action]] = [[] for _ in problem.cluster.devices]
    for index, (stage, most) in enumerate(zip(actions.stages, limits, strict=True)):
        kinds = "".join(kind for number, kind in actions.rows if number == index)
        lag = most - stage.in_flight
        count = problem.mini_batch // stage.micro_batch_size
        pattern = alternate(index, kinds, count, stage.in_flight, lag=lag)
        for device in stage.devices:
            if orders[device]:
                return None
            orders[device] = pattern
    return actions.follow(orders)
