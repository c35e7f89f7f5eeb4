"""Improve a plan by moving operators across the boundaries of its stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.assemble import assemble
from solvers.bounds import together
from solvers.errors import InvalidPlan
from solvers.graph import OpGraph, Phase
from solvers.monitor import Monitor
from solvers.plan import Plan, Stage
from solvers.problem import Problem
from solvers.segments import Place

RUNS = (1, 2, 4, 8, 16)
"""How many groups of operators one move takes along, so that a far optimum is reached quickly."""

LEAST_GAIN = 1e-3
"""A relative gain below this is not worth another round: people wait for the end of the descent."""


def improve(problem: Problem, monitor: Monitor) -> None:
    """Descend from the monitor's best plan until no move helps; every gain is offered.

    A move takes the last (or first) groups of the busiest stage, in topological order, to a
    neighbouring stage's device, as long as that stays less busy. Each candidate is judged by the
    whole simulation; the descent goes on while a move gains at least LEAST_GAIN.
    """
    groups = _Groups(problem.graph)
    while monitor.best is not None:
        before = monitor.objective_s
        for placement, micro_batches in _neighbours(problem, monitor.best, groups):
            monitor.check()
            try:
                monitor.offer(assemble(problem, placement, micro_batches))
            except InvalidPlan:
                continue
            if monitor.objective_s < before * (1 - LEAST_GAIN):
                break
        else:
            return


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


def _neighbours(problem: Problem, plan: Plan, groups: _Groups) -> Iterator[tuple[list[Place], int]]:
    placement: list[Place] = [()] * len(problem.graph)
    for stage in plan.stages:
        for operator in stage.operators:
            placement[operator] = stage.devices
    micro_batches = problem.mini_batch // plan.stages[0].micro_batch_size
    load = [float(_seconds(problem, stage)[list(stage.operators)].sum()) for stage in plan.stages]
    busiest = max(range(len(load)), key=load.__getitem__)
    tail = groups.of_stage(plan.stages[busiest].operators)
    for a, b in sorted(_touching(problem.graph, plan)):
        other = b if a == busiest else a
        if busiest not in (a, b) or plan.stages[other].devices == plan.stages[busiest].devices:
            continue
        there = _seconds(problem, plan.stages[other])
        for run in RUNS:
            if run >= len(tail):
                break
            moved = tail[-run:] if a == busiest else tail[:run]
            added = sum(float(there[list(groups.members[number])].sum()) for number in moved)
            if load[other] + added >= load[busiest]:
                break  # the neighbour would become as busy
            yield _moved(placement, groups, moved, plan.stages[other].devices), micro_batches


def _seconds(problem: Problem, stage: Stage) -> NDArray[np.float64]:
    """Time of every operator per micro-batch where ``stage`` runs, [operators]."""
    kind = problem.cluster.devices[stage.devices[0]].kind
    return problem.compute.at(kind, stage.micro_batch_size / len(stage.devices))


def _touching(graph: OpGraph, plan: Plan) -> set[tuple[int, int]]:
    stage_of = {o: index for index, stage in enumerate(plan.stages) for o in stage.operators}
    found = set()
    for tensor in graph.tensors:
        if graph.operators[tensor.producer].phase is Phase.FORWARD:
            a = stage_of[tensor.producer]
            found |= {
                (a, stage_of[reader])
                for reader in tensor.consumers
                if graph.operators[reader].phase is Phase.FORWARD and stage_of[reader] != a
            }
    return found


def _moved(placement: Sequence[Place], groups: _Groups, numbers: Sequence[int], devices: Place) -> list[Place]:
    changed = list(placement)
    for number in numbers:
        for operator in groups.members[number]:
            changed[operator] = devices
    return changed
