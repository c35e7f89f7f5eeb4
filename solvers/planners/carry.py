"""Take a plan over to another question about the same graph: other devices, caps, pins, batches, features."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from solvers.errors import InvalidPlan, InvalidProblem
from solvers.evaluation.evaluate import judge
from solvers.evaluation.lower import check_messages
from solvers.evaluation.simulation import run
from solvers.pipelines.seating import caps_differ
from solvers.plan.alike import multiplied
from solvers.plan.order_check import check_order
from solvers.plan.plan import Plan
from solvers.plan.segments import Place
from solvers.problem.pinned import pin
from solvers.problem.problem import SEVERAL_STAGES, Objective, Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.schedules.nodes.mapping import exchanged
from solvers.schedules.textbook import is_one_f_one_b


def carried(problem: Problem, plan: Plan) -> Iterator[Plan]:
    """Plans for ``problem`` to start from: the plan itself where it is one of its answers, in micro-batches and
    pipeline that it asks for, the same with equal devices exchanged (`relabelled`), and its placement, arranged again
    with what is pinned where it is to be.

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
        if (other := relabelled(problem, same)) is not same:
            yield other
            plan = other
    placement = _folded(problem, plan)
    pin(problem, placement)
    for count in sorted(problem.micro_batch_choices(), key=lambda count: _distance(problem, plan, count))[:2]:
        samples = problem.mini_batch // count
        places = [place if problem.can_share(samples, len(place)) else place[:1] for place in placement]
        try:
            yield assemble(problem, places, count)
        except InvalidPlan:  # folded devices whose tensors flow in a cycle
            continue


def _unchanged(problem: Problem, plan: Plan) -> Plan | None:
    """The plan, without an order of messages that no longer is one; None if it cannot run here, or has micro-batches or
    a pipeline that are not asked for."""
    if any(device >= len(problem.cluster) for stage in plan.stages for device in stage.devices):
        return None
    if len(plan.order) != len(problem.cluster):
        order = (*plan.order, *((),) * len(problem.cluster))[: len(problem.cluster)]
        plan = replace(plan, order=order, messages=())
    counts = {divmod(problem.mini_batch, stage.micro_batch_size) for stage in plan.stages}
    if not counts <= {(count, 0) for count in problem.stage_choices()} or not _in_order(problem, plan):
        return None
    try:
        check_order(problem, plan)
    except (InvalidPlan, InvalidProblem):
        return None
    return carried_over(problem, plan)


def _in_order(problem: Problem, plan: Plan) -> bool:
    """Whether the plan's order is one of the problem's pipeline. "custom" is 1F1B with several micro-batches in a row,
    unless gradients of parameters are put off; and interleaving is 1F1B where no device has several stages. 1F1B itself
    keeps no more in flight than it has to."""
    pipeline = problem.pipeline
    if problem.objective is not Objective.ITERATION or pipeline in (Pipeline.PLANNER, plan.pipeline):
        return True
    if pipeline is Pipeline.ONE_F_ONE_B:
        return is_one_f_one_b(problem, plan)
    if pipeline not in (Pipeline.K_F_K_B, *SEVERAL_STAGES):
        return False
    whole = all(action.kind != "W" for row in plan.order for action in row)
    return plan.pipeline == Pipeline.ONE_F_ONE_B or (plan.pipeline == "custom" and whole)


def relabelled(problem: Problem, plan: Plan) -> Plan:
    """The plan, which has a row for every device, with devices of one kind exchanged: so that as many operators as
    possible are where they are pinned, and of the others those that hold most where there is most memory. The plan
    itself if it fits as it is, and where nothing is to be exchanged."""
    devices = problem.cluster.devices
    if judge(problem, plan).feasible:
        return plan
    wishes: Counter[tuple[int, int]] = Counter()
    for operator, places in plan.placement().items():
        if operator in problem.pins:
            wishes[places[0], problem.pins[operator]] += 1
    wanted: dict[int, int] = {}
    for (here, there), _ in wishes.most_common():
        if here not in wanted and there not in wanted.values() and devices[here].kind == devices[there].kind:
            wanted[here] = there
    to = exchanged(problem.cluster, range(len(devices)), wanted)
    if caps_differ(problem.cluster):
        roomy = replace(problem.cluster, devices=tuple(replace(d, memory_bytes=math.inf) for d in devices))
        peak = run(replace(problem, cluster=roomy), plan).peak_bytes()
        for kind in dict.fromkeys(devices[d].kind for d in problem.cluster.accelerators):
            free = [d for d in range(len(devices)) if devices[d].kind == kind and d not in wanted]
            rooms = sorted((to[d] for d in free), key=lambda d: (-devices[d].memory_bytes, d))
            for device, room in zip(sorted(free, key=lambda d: (-peak[d], d)), rooms, strict=True):
                to[device] = room
    if to == list(range(len(devices))):
        return plan
    return multiplied(plan, [to], len(devices))


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
    same_devices = max(first) < len(problem.cluster)
    to = {
        device: device if same_devices else pool[min(rank, rank * len(pool) // max(len(first), 1))]
        for rank, device in enumerate(first)
    }
    placement: list[Place] = [()] * len(problem.graph)
    for stage in plan.stages:
        place = tuple(dict.fromkeys(to[device] for device in stage.devices))[: problem.max_replicas]
        for operator in stage.operators:
            placement[operator] = place
    return placement


def _distance(problem: Problem, plan: Plan, count: int) -> float:
    """How far the plan's micro-batches are from those of this number, as a ratio's logarithm."""
    size = max(stage.micro_batch_size for stage in plan.stages)
    return abs(math.log(problem.mini_batch / count / size))
