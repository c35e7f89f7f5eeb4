"""What devices send in an iteration, by kind of exchange."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from solvers.evaluation.simulation import run
from solvers.kernels.arrays import Floats
from solvers.plan.plan import Plan
from solvers.plan.schedule import SPAN_KINDS
from solvers.problem.collectives import KINDS, exchange_kind
from solvers.problem.graph import Phase
from solvers.problem.problem import Objective, Problem
from solvers.problem.regions import regions_of
from solvers.problem.training import ZERO_GRADIENTS, ZERO_PARAMETERS, ZERO_STATES


def sent_bytes(problem: Problem, plan: Plan) -> Mapping[str, Floats]:
    """B that each device sends in an iteration, by kind, [devices]: to the next of its ring for collectives, of
    replicas and of tensor-parallel groups (there each member of what is one device here), and as messages between
    stages. Forwards that run again before their backward exchange again."""
    sent = within_groups(problem, plan)
    if problem.has_backward():
        _among_replicas(problem, plan, sent)
    simulation = run(problem, plan, Objective.ITERATION)
    tasks = simulation.lowered.tasks
    message = (tasks.to_device >= 0) & (tasks.to_device != tasks.device) & (tasks.kind != SPAN_KINDS.index("S"))
    between = np.bincount(tasks.device[message], tasks.nbytes[message], len(problem.cluster))
    if len(simulation.groups) > 1:
        between[simulation.groups] = between[simulation.groups[0]]
    sent["point_to_point"] += between
    return sent


def within_groups(problem: Problem, plan: Plan, axis: int | None = None) -> dict[str, Floats]:
    """The same of what is sent to the other members of a device's group alone. axis: along one of the two that a group
    divides a model along (0: the outer), None for all that it does."""
    graph, sent = problem.graph, {kind: np.zeros(len(problem.cluster)) for kind in KINDS}
    again = {
        operator
        for members in (regions_of(graph).members.values() if problem.plain is not None else ())
        for operator in members
        if not graph.operators[operator].cached
    }
    for stage in plan.stages:
        passes = problem.mini_batch / stage.micro_batch_size
        for number in stage.operators:
            operator = graph.operators[number]
            sent_bytes = {None: operator.sent_bytes, 0: operator.outer_bytes, 1: operator.exchanged_bytes}[axis]
            nbytes = sent_bytes.at(stage.micro_batch_size / len(stage.devices))
            if not nbytes:
                continue
            if operator.phase is not Phase.UPDATE:
                reruns = operator.phase is Phase.FORWARD and (stage.recompute or number in again)
                nbytes *= passes * (2 if reruns else 1)
            sent[exchange_kind(operator)][list(stage.devices)] += nbytes
    return sent


def _among_replicas(problem: Problem, plan: Plan, sent: Mapping[str, Floats]) -> None:
    """Gradients, and with ZeRO parameters (`Copies.reduced`)."""
    copies, operators = problem.copies, problem.graph.operators
    for stage in plan.stages:
        replicas, devices = len(stage.devices), list(stage.devices)
        if replicas == 1:
            continue
        owners = [operators[o] for o in stage.operators if operators[o].phase is Phase.FORWARD]
        trained = sum(owner.trained_bytes for owner in owners)
        weights = sum(owner.param_bytes for owner in owners)
        share, passes = (replicas - 1) / replicas, problem.mini_batch / stage.micro_batch_size
        gradients = share * trained * copies.summed
        if copies.zero < ZERO_STATES:
            sent["all_reduce"][devices] += 2 * gradients
            continue
        sent["reduce_scatter"][devices] += gradients * (passes if copies.zero >= ZERO_GRADIENTS else 1)
        gathered = weights * 2 * passes if copies.zero >= ZERO_PARAMETERS else trained
        sent["all_gather"][devices] += share * gathered
