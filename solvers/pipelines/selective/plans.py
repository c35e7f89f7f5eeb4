"""The plan of a line's cuts: every device does its parts in turn, forwards and backwards as in 1F1B.

To the devices before and after it a device is one stage; its parts are stages of their own, some of which run again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solvers.evaluation.simulation import run
from solvers.pipelines.selective.cuts import Cut, shed_bytes
from solvers.pipelines.selective.line import Line
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.graph import Phase
from solvers.problem.groups import group_of, together
from solvers.schedules.ordering.arrange import arranged_as
from solvers.schedules.ordering.orders import kinds_of, stage_waits
from solvers.schedules.ordering.patterns import actions_of, alternate

ROUNDS = 6
"""Simulations in which what runs again is fitted to the memory."""


class Part(NamedTuple):
    """Groups that are one stage, and whether its forward runs again."""

    groups: list[int]
    again: bool


class Fitted(NamedTuple):
    """The plan that fits, None if none did, and its seconds."""

    plan: Plan | None
    seconds: float


def plan_of(line: Line, cuts: Sequence[Cut], devices: Sequence[int]) -> Plan:
    """devices: one for each cut. Raises InvalidPlan where parts wait for each other."""
    problem, graph = line.problem, line.problem.graph
    rank = {operator: at for at, operator in enumerate(graph.topological_order)}
    stages: list[Stage] = []
    orders: list[list[Action]] = [[] for _ in range(len(problem.cluster))]
    for cut, device in zip(cuts, devices, strict=True):
        begin = len(stages)
        for part in parts_of(line, cut):
            operators = sorted((o for group in part.groups for o in together(graph)[group]), key=rank.__getitem__)
            stages.append(Stage(tuple(operators), (device,), line.samples, cut.in_flight, part.again))
        own = range(begin, len(stages))
        kinds = {index: kinds_of(problem, stages[index]) for index in own}
        rows = {
            kind: [actions_of(index, kind, line.count) for index in order if kind in kinds[index]]
            for kind, order in (("F", own), ("B", reversed(own)))
        }
        for action in alternate(0, "FB", line.count, cut.in_flight):
            orders[device] += [row[action.micro_batch] for row in rows[action.kind]]
    waits = stage_waits(graph, [stage.operators for stage in stages])
    return arranged_as(problem, stages, waits, orders, "1f1b")


def parts_of(line: Line, cut: Cut) -> list[Part]:
    """The parts of a device, in the order in which they run forwards."""
    first, again, end = (int(line.places[place]) for place in (cut.first, cut.again, cut.end))
    parts = [Part(line.order[first:again].tolist(), True)] if again > first else []
    rest: list[int] = line.order[again:end].tolist()
    if not cut.cheaply:
        return [*parts, Part(rest, False)] if rest else parts
    level = _levels(line, rest)
    at_level: dict[tuple[int, bool], list[int]] = {}
    for group in rest:
        at_level.setdefault((level[group], bool(line.component[group] >= 0)), []).append(group)
    return [*parts, *(Part(at_level[key], key[1]) for key in sorted(at_level))]


def _levels(line: Line, groups: Sequence[int]) -> dict[int, int]:
    """How often a way to each group changes between cheap groups and others, at most: parts of one level and kind wait
    for parts of earlier levels alone, or for the other kind of the same level, if at all one way round."""
    graph, number = line.problem.graph, group_of(line.problem.graph)
    level: dict[int, int] = {}
    inside = set(groups)
    for group in groups:  # sources come first in a line
        cheap, most = bool(line.component[group] >= 0), 0
        for operator in together(graph)[group]:
            if graph.operators[operator].phase is not Phase.FORWARD:
                continue
            for source in graph.predecessors[operator]:
                other = int(number[source])
                if other != group and other in inside:
                    changes = bool(line.component[other] >= 0) != cheap
                    most = max(most, level.get(other, 0) + changes)
        level[group] = most
    return level


def fitted(line: Line, cuts: Sequence[Cut], devices: Sequence[int]) -> Fitted:
    """The fastest plan of these cuts within memory, of a few that are simulated: every device runs as much again as the
    peak that it had asks for, more where it had too little room and less where some was left."""
    problem = line.problem
    caps = np.array([problem.cluster.devices[device].memory_bytes for device in devices])
    least, most = [cut.first for cut in cuts], [cut.end for cut in cuts]  # of again, as far as is known
    best = Fitted(None, math.inf)
    cuts = list(cuts)
    for _ in range(ROUNDS):
        plan = plan_of(line, cuts, devices)
        simulation = run(problem, plan)
        over = simulation.peak_bytes()[list(devices)] - caps
        if (over <= 0).all() and simulation.makespan_s < best.seconds:
            best = Fitted(plan, simulation.makespan_s)
        after = [_refitted(line, cut, i, float(over[i]), least, most) for i, cut in enumerate(cuts)]
        if after == cuts:
            break
        cuts = after
    return best


def _refitted(line: Line, cut: Cut, at: int, over_bytes: float, least: list[int], most: list[int]) -> Cut:
    """The cut with as much running again as so many bytes over its cap, or under it, ask for. least, most: of again, of
    every cut; narrowed for the one ``at``."""
    if over_bytes > 0 and not cut.cheaply:
        return cut._replace(cheaply=True)
    if over_bytes > 0:
        least[at] = cut.again + 1
    else:
        most[at] = min(most[at], cut.again)
    shed = shed_bytes(line, cut.in_flight)
    again = int(np.searchsorted(shed, shed[cut.again] + over_bytes, side="left"))
    return cut._replace(again=min(max(again, least[at]), most[at], cut.end))
