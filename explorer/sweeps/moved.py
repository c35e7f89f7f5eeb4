"""A plan of which some operators are somewhere else: everything else as it was, as far as that is possible."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from solvers.errors import InvalidPlan, PlacementError
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Action, Plan, Stage
from solvers.plan.schedule import SPAN_KINDS
from solvers.problem.groups import together
from solvers.problem.problem import Pipeline, Problem
from solvers.schedules.assemble import assemble
from solvers.schedules.ordering.arrange import arranged
from solvers.schedules.ordering.in_flight import in_flight
from solvers.schedules.ordering.orders import stage_successors, stage_waits
from solvers.schedules.textbook import one_f_one_b

Place = tuple[int, ...]
"""A device, or the devices of replicas."""

MOST_JOINED = 4
"""Stages of one place that operators are tried in; more are not."""


def company(problem: Problem, operators: Collection[int]) -> frozenset[int]:
    """The operators with all that must be where they are: gradients, updates, co-located, kept together."""
    wanted = set(operators)
    return frozenset(i for group in together(problem.graph) if wanted & set(group) for i in group)


def places(problem: Problem, plan: Plan) -> list[Place]:
    """Where operators can be: the places of the plan's stages, and devices that have none by themselves, in order."""
    used = {stage.devices for stage in plan.stages}
    taken = {device for place in used for device in place}
    return sorted(used | {(device,) for device in range(len(problem.cluster)) if device not in taken})


def moved_plans(problem: Problem, plan: Plan, operators: Collection[int], to: Place) -> Iterator[Plan]:
    """Plans in which these operators (see `company`) are at ``to``, those that change least first: whole stages take
    their place in the order by when they ran; else operators join a stage that is there, in the same order and in a
    fresh one, or become a stage of their own. What cannot be made is left out; which rules a plan breaks is for others
    to tell."""
    moving = set(operators)
    touched = [i for i, stage in enumerate(plan.stages) if moving & set(stage.operators)]
    whole = all(set(plan.stages[i].operators) <= moving for i in touched)
    if whole and all(len(plan.stages[i].devices) == len(to) == 1 for i in touched):
        yield _reordered(problem, _stages_elsewhere(problem, plan, set(touched), to))
    there = [i for i, stage in enumerate(plan.stages) if stage.devices == to and not set(stage.operators) <= moving]
    for target in there[:MOST_JOINED]:
        stages = _left(plan, moving)
        joined = {*plan.stages[target].operators, *moving}
        stages[target] = plan.stages[target].holding(_in_order(problem, joined))
        if len(stages) == len(plan.stages):
            yield _reordered(problem, replace(plan, stages=tuple(stages[i] for i in range(len(stages))), messages=()))
        yield from _arranged(problem, list(stages.values()))
    if not there or len(to) == 1:
        like = plan.stages[touched[0]]
        own = replace(like.holding(_in_order(problem, moving)), devices=to)
        yield from _arranged(problem, [*_left(plan, moving).values(), own])
        yield from _assembled(problem, plan, moving, to)


def _reordered(problem: Problem, plan: Plan) -> Plan:
    """The plan as it is; where 1F1B is asked for, in its order: stages that now follow others may keep less."""
    return (one_f_one_b(problem, plan) or plan) if problem.pipeline is Pipeline.ONE_F_ONE_B else plan


def _left(plan: Plan, moving: Collection[int]) -> dict[int, Stage]:
    """The stages without these operators, by their numbers; those of which nothing is left are not there."""
    remaining = {i: tuple(o for o in stage.operators if o not in moving) for i, stage in enumerate(plan.stages)}
    return {i: plan.stages[i].holding(operators) for i, operators in remaining.items() if operators}


def _in_order(problem: Problem, operators: Collection[int]) -> tuple[int, ...]:
    return tuple(o for o in problem.graph.topological_order if o in operators)


def _stages_elsewhere(problem: Problem, plan: Plan, numbers: Collection[int], to: Place) -> Plan:
    """Stages on another device: their actions run there as early as before, between those that ran before and after."""
    stages = tuple(replace(stage, devices=to) if i in numbers else stage for i, stage in enumerate(plan.stages))
    began = _begins(problem, plan)
    order = [[action for action in row if action.stage not in numbers] for row in plan.order]
    come = [action for row in plan.order for action in row if action.stage in numbers]
    order[to[0]] = sorted([*order[to[0]], *come], key=lambda action: began.get(action, 0.0))
    return replace(plan, stages=stages, order=tuple(map(tuple, order)), messages=())


def _begins(problem: Problem, plan: Plan) -> Mapping[Action, float]:
    """When each action of a plan first begins."""
    columns = simulate(problem, plan).columns
    begins: dict[Action, float] = {}
    rows = zip(
        columns.stage.tolist(), columns.kind.tolist(), columns.micro_batch.tolist(), columns.to_device.tolist(),
        columns.start_s.tolist(), strict=True,
    )  # fmt: skip
    for stage, kind, micro_batch, to_device, start in rows:
        if to_device < 0:
            begins.setdefault(Action(stage, SPAN_KINDS[kind], micro_batch), start)
    return begins


def _arranged(problem: Problem, stages: list[Stage]) -> Iterator[Plan]:
    """The stages in the order of the problem's pipeline, with as much in flight as that keeps."""
    sets = [stage.operators for stage in stages]
    try:
        waits = stage_waits(problem.graph, sets)
        if len({stage.micro_batch_size for stage in stages}) == 1:
            sizes, blocks = [stages[0].micro_batch_size] * len(sets), [1] * len(sets)
            flights = in_flight(problem, stage_successors(problem, sets), sizes, blocks)
            stages = [replace(stage, in_flight=most) for stage, most in zip(stages, flights, strict=True)]
        yield arranged(problem, stages, waits)
    except PlacementError:
        return


def _assembled(problem: Problem, plan: Plan, moving: Collection[int], to: Place) -> Iterator[Plan]:
    """The placement cut into stages again, for plans that say nothing beside it."""
    first = plan.stages[0]
    plain = all(
        stage.micro_batch_size == first.micro_batch_size and not stage.recompute for stage in plan.stages
    )  # fmt: skip
    where = plan.placement()
    if not plain or any(where[o] not in {stage.devices for stage in plan.stages} for o in where):
        return
    placement = [to if o in moving else where[o] for o in range(len(problem.graph))]
    try:
        yield assemble(problem, placement, problem.mini_batch // first.micro_batch_size)
    except (InvalidPlan, PlacementError):
        return
