"""Orders of messages to test with: the one that a simulation served, and others."""

from __future__ import annotations

import random
from dataclasses import replace

from solvers.errors import InvalidPlan
from solvers.evaluation.columns import wire_name
from solvers.evaluation.message_order import named_transfers
from solvers.evaluation.simulation import run
from solvers.plan.plan import ACTION_KINDS, Action, Message, MessageOrder, Plan
from solvers.problem.problem import Problem, Transfers


def served(problem: Problem, plan: Plan) -> MessageOrder:
    """What every link serves where the plan states no order, in that order.

    Of spans of no length at one instant the order may be another, so that the plan which states it deadlocks.
    """
    if problem.transfers is not Transfers.LINKS:
        return ()
    simulation = run(problem, replace(plan, messages=()))
    names = [wire_name(problem.cluster, wire) for wire in simulation.lowered.wires.tolist()]
    links: dict[str, list[Message]] = {}
    rows = named_transfers(problem, simulation.lowered.tasks).T.tolist()
    for wire, stage, kind, micro_batch, to_device, number, _ in sorted(
        rows, key=lambda row: (simulation.start_s[row[-1]], simulation.end_s[row[-1]])
    ):
        message = Message(Action(stage, ACTION_KINDS[kind], micro_batch), to_device, number)
        links.setdefault(names[wire], []).append(message)
    return tuple((link, tuple(row)) for link, row in links.items())


def shuffled(rng: random.Random, order: MessageOrder) -> MessageOrder:
    """Some neighbours swapped, some links left out."""
    orders = []
    for link, row in order:
        changed = list(row)
        for _ in range(rng.choice([0, 1, 1, 2, 5]) if len(changed) > 1 else 0):
            i = rng.randrange(len(changed) - 1)
            changed[i], changed[i + 1] = changed[i + 1], changed[i]
        if rng.random() < 0.8:
            orders.append((link, tuple(changed)))
    return tuple(orders)


def with_some_order(rng: random.Random, problem: Problem, plan: Plan) -> Plan:
    """The plan with an order of messages that may deadlock; itself where it has none, or cannot be simulated."""
    try:
        return replace(plan, messages=shuffled(rng, served(problem, plan)))
    except InvalidPlan:
        return plan
