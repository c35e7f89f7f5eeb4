"""Take a plan over to another question about the same graph: other devices, caps, batches, features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from solvers.errors import InvalidPlan, InvalidProblem
from solvers.evaluation.lower import check_messages
from solvers.plan.order_check import check_order
from solvers.plan.plan import Plan
from solvers.plan.segments import Place
from solvers.problem.problem import Problem
from solvers.schedules.assemble import assemble


def carried(problem: Problem, plan: Plan) -> Iterator[Plan]:
    """Plans for ``problem`` to start from: the plan itself where it can run, and its placement, arranged anew.

    Fewer devices: those that the plan uses are folded in their order, so that neighbours in the pipeline share one.
    Replicas that are not allowed, or cannot share the samples, are left out. The micro-batches are those allowed whose
    size is nearest. Whether they fit is not asked here. Raises InvalidProblem, in one line, if the plan is not of the
    problem's graph.
    """
    held = {operator for stage in plan.stages for operator in stage.operators}
    if held != set(range(len(problem.graph))):
        raise InvalidProblem(
            f"the plan to start from holds {len(held):,} operators of another graph, and this one has"
            f" {len(problem.graph):,}; start from a plan of the same model and phase"
        )
    if (same := _unchanged(problem, plan)) is not None:
        yield same
    placement = _folded(problem, plan)
    for count in sorted(problem.micro_batch_choices(), key=lambda count: _apart(problem, plan, count))[:2]:
        samples = problem.mini_batch // count
        places = [place if problem.can_share(samples, len(place)) else place[:1] for place in placement]
        try:
            yield assemble(problem, places, count)
        except InvalidPlan:  # folded devices whose tensors flow in a circle
            continue


def _unchanged(problem: Problem, plan: Plan) -> Plan | None:
    """The plan, without an order of messages that no longer is one; None if it cannot run here."""
    if any(device >= len(problem.cluster) for stage in plan.stages for device in stage.devices):
        return None
    if len(plan.order) != len(problem.cluster):
        order = (*plan.order, *((),) * len(problem.cluster))[: len(problem.cluster)]
        plan = replace(plan, order=order, messages=())
    if any(problem.mini_batch % stage.micro_batch_size for stage in plan.stages):
        return None
    try:
        check_order(problem, plan)
    except (InvalidPlan, InvalidProblem):
        return None
    return carried_over(problem, plan)


def carried_over(problem: Problem, plan: Plan) -> Plan:
    """The plan without its order of messages where that no longer is one: the problem's links may be others than
    those that it names."""
    try:
        check_messages(problem, plan)
    except InvalidPlan:
        return replace(plan, messages=())
    return plan


def _folded(problem: Problem, plan: Plan) -> list[Place]:
    """Per operator its devices in the problem's cluster, in the order in which the plan first uses them."""
    first = list(dict.fromkeys(device for stage in plan.stages for device in stage.devices))
    pool = problem.cluster.accelerators or tuple(range(len(problem.cluster)))
    kept = max(first) < len(problem.cluster)
    to = {
        device: device if kept else pool[min(rank, rank * len(pool) // max(len(first), 1))]
        for rank, device in enumerate(first)
    }
    placement: list[Place] = [()] * len(problem.graph)
    for stage in plan.stages:
        place = tuple(dict.fromkeys(to[device] for device in stage.devices))[: problem.max_replicas]
        for operator in stage.operators:
            placement[operator] = place
    return placement


def _apart(problem: Problem, plan: Plan, count: int) -> float:
    """How far the plan's micro-batches are from those of this number, as a ratio's logarithm."""
    size = max(stage.micro_batch_size for stage in plan.stages)
    return abs(math.log(problem.mini_batch / count / size))
