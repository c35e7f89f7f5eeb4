"""Improve a plan by moving operators across the boundaries of its stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidPlan
from solvers.plan.drafts import Draft, DraftStage
from solvers.plan.plan import Plan, Stage
from solvers.plan.regions import with_regions
from solvers.plan.segments import Place
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.groups import together
from solvers.problem.problem import Objective, Problem
from solvers.schedules.assemble import assemble
from solvers.schedules.realise import realise
from solvers.search.monitor import Monitor

RUNS = (1, 2, 4, 8, 16)
"""How many groups of operators one move takes along, so that a far optimum is reached quickly."""

MORE_IN_FLIGHT = 2
"""How many times what the rule asks for is tried beyond it."""
LEAST_GAIN = 1e-3
"""A relative gain below this is not worth another round: people wait for the end of the descent."""


def improve(problem: Problem, monitor: Monitor) -> None:
    """Descend from the monitor's best plan until no move helps; every gain is offered.

    A move takes the last (or first) groups of the busiest stage, in topological order, to a
    neighbouring stage, as long as that stays less busy. Devices, sizes of micro-batches, recomputation and
    micro-batches in flight beyond the rule stay as they are. Each candidate is judged by the whole
    simulation; the descent goes on while a move gains at least LEAST_GAIN.
    """
    groups = _Groups(problem.graph)
    while monitor.best is not None:
        before = monitor.objective_s
        plan = monitor.best
        # Where devices run several stages, what is one stage depends on all placements together.
        used = [device for stage in plan.stages for device in stage.devices]
        draft = draft_of(problem, plan) if len(used) == len(set(used)) else None
        for stages in _neighbours(problem, plan, groups):
            monitor.check()
            try:
                monitor.offer(_rebuilt(problem, plan, draft, stages))
            except InvalidPlan:
                continue
            if monitor.objective_s < before * (1 - LEAST_GAIN):
                break
        else:
            return


def draft_of(problem: Problem, plan: Plan) -> Draft:
    """The draft whose realisation on the plan's devices is the plan, as far as drafts can tell. An operator that moves
    to another stage runs again there, too, where it did."""
    regions = tuple(region for stage in plan.stages for region in stage.regions)
    plain = Draft(
        tuple(
            DraftStage(
                stage.operators,
                stage.micro_batch_size,
                len(stage.devices),
                int(stage.recompute),
                _block(plan, index),
                regions=regions,
            )
            for index, stage in enumerate(plan.stages)
        )
    )
    rule = realise(problem, plain, [stage.devices for stage in plan.stages])
    extra = [max(0, stage.in_flight - least.in_flight) for stage, least in zip(plan.stages, rule.stages, strict=True)]
    return Draft(tuple(replace(stage, slack=slack) for stage, slack in zip(plain.stages, extra, strict=True)))


def _block(plan: Plan, index: int) -> int:
    """How many backwards the stage runs in a row before the next forward (the k of kFkB)."""
    kinds = "".join(action.kind for action in plan.order[plan.stages[index].devices[0]] if action.kind in "FB")
    first = kinds.find("B")
    following = kinds.find("F", first)
    return following - first if 0 <= first < following else 1


def _rebuilt(problem: Problem, plan: Plan, draft: Draft | None, stages: Sequence[Sequence[int]]) -> Plan:
    """The plan with other operators in its stages."""
    if draft is None:
        placement: list[Place] = [()] * len(problem.graph)
        for stage, operators in zip(plan.stages, stages, strict=True):
            for operator in operators:
                placement[operator] = stage.devices
        return assemble(problem, placement, problem.mini_batch // plan.stages[0].micro_batch_size)
    changed = [replace(stage, operators=tuple(members)) for stage, members in zip(draft.stages, stages, strict=True)]
    return realise(problem, Draft(tuple(changed)), [stage.devices for stage in plan.stages])


class _Groups:
    """Co-location groups, and for each operator its group, in topological order."""

    def __init__(self, graph: OpGraph) -> None:
        self.members = together(graph)
        self.of = {operator: number for number, group in enumerate(self.members) for operator in group}
        position = {operator: rank for rank, operator in enumerate(graph.topological_order)}
        self.rank = [
            min((position[o] for o in group if graph.operators[o].phase is Phase.FORWARD), default=len(graph))
            for group in self.members
        ]

    def of_stage(self, operators: Sequence[int]) -> list[int]:
        """The stage's groups, first in topological order first."""
        return sorted({self.of[o] for o in operators}, key=lambda number: self.rank[number])


def _neighbours(problem: Problem, plan: Plan, groups: _Groups) -> Iterator[list[Sequence[int]]]:
    """The operators of every stage after a move."""
    problem = with_regions(problem, plan)
    load = [_load_s(problem, stage, stage.operators) for stage in plan.stages]
    busiest = max(range(len(load)), key=load.__getitem__)
    tail = groups.of_stage(plan.stages[busiest].operators)
    for a, b in sorted(_touching(problem.graph, plan)):
        other = b if a == busiest else a
        if busiest not in (a, b) or plan.stages[other].devices == plan.stages[busiest].devices:
            continue
        for run in RUNS:
            if run >= len(tail):
                break
            numbers = tail[-run:] if a == busiest else tail[:run]
            moved = [operator for number in numbers for operator in groups.members[number]]
            if load[other] + _load_s(problem, plan.stages[other], moved) >= load[busiest]:
                break  # the neighbour would become as busy
            gone = set(moved)
            stages: list[Sequence[int]] = [stage.operators for stage in plan.stages]
            stages[busiest] = [o for o in plan.stages[busiest].operators if o not in gone]
            stages[other] = [*plan.stages[other].operators, *moved]
            if stages[busiest]:
                yield stages


def _load_s(problem: Problem, stage: Stage, operators: Sequence[int]) -> float:
    """Seconds per sample that ``operators`` take where ``stage`` runs."""
    seconds = _seconds(problem, stage)
    whole = float(seconds[list(operators)].sum())
    if stage.recompute:
        phases = problem.graph.operators
        whole += float(seconds[[o for o in operators if phases[o].phase is Phase.FORWARD]].sum())
    return whole / stage.micro_batch_size


def _seconds(problem: Problem, stage: Stage) -> NDArray[np.float64]:
    """Time of every operator per micro-batch where ``stage`` runs, [operators]."""
    kind = problem.cluster.devices[stage.devices[0]].kind
    return problem.compute.at(kind, stage.micro_batch_size / len(stage.devices))


def _touching(graph: OpGraph, plan: Plan) -> set[tuple[int, int]]:
    stage_of = {o: index for index, stage in enumerate(plan.stages) for o in stage.operators}
    pairs = set()
    for tensor in graph.tensors:
        if graph.operators[tensor.producer].phase is Phase.FORWARD:
            a = stage_of[tensor.producer]
            pairs |= {
                (a, stage_of[reader])
                for reader in tensor.consumers
                if graph.operators[reader].phase is Phase.FORWARD and stage_of[reader] != a
            }
    return pairs


def offer_more_in_flight(problem: Problem, monitor: Monitor) -> None:
    """Offer the best plan with one and two times as many micro-batches in flight beyond the rule.

    Where neighbours differ by one, as the rule has it, every transfer between them delays each
    micro-batch; as many more on all stages change nothing, one more for every stage that follows does.
    """
    plan = monitor.best
    if plan is None or problem.objective is not Objective.ITERATION or not problem.may_run_ahead:
        return
    used = [device for stage in plan.stages for device in stage.devices]
    if len(plan.stages) == 1 or len(used) > len(set(used)):
        return
    draft = draft_of(problem, plan)
    for times in range(1, MORE_IN_FLIGHT + 1):
        monitor.check()
        more = tuple(
            replace(stage, slack=times * (planned.in_flight - stage.slack))
            for stage, planned in zip(draft.stages, plan.stages, strict=True)
        )
        monitor.offer(realise(problem, Draft(more), [stage.devices for stage in plan.stages]))
