"""Moves of super-operators from stage to stage. What they lead to may turn out not to be a draft."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit
from solvers.pipelines.descent.facts import AFTER, BEFORE, REPLICAS, Change, Facts, Graph, Stages
from solvers.pipelines.descent.stages_kernel import lead_to, members_of, moved, single_s

RUNS = (1, 2, 4, 8, 16)
"""How many super-operators one move takes along, so that a far optimum is reached quickly."""
FAR = 40
"""With more stages than this, super-operators are not handed on along paths of them."""
SMALL = 8
"""With so few stages any two may exchange super-operators, however far apart."""
DOWN, UP, BOTH = range(3)
LONGEST_SWAP = 2
CASCADED = (1, 2, 4)


class Near(NamedTuple):
    """The stages that may exchange super-operators with a stage."""

    stage: Ints
    way: Ints
    """those that read of it lie DOWN, those it reads of UP, its siblings, which share one of these with it, BOTH"""


@njit(cache=True)
def near_to(after: Bools, stage: int) -> Near:
    """The neighbours of a stage. after: see `looks_kernel.after_of`."""
    count = len(after)
    down, up = after[stage], after[:, stage]
    stages, way = np.empty(count, np.int64), np.empty(count, np.int64)
    n = 0
    for direction in (DOWN, UP, BOTH):
        for s in range(count):
            if direction == DOWN:
                chosen = down[s]
            elif direction == UP:
                chosen = up[s] and not down[s]
            else:
                chosen = s != stage and not down[s] and not up[s]
                if chosen and count > SMALL:
                    chosen = (after[s] & down).any() or (after[:, s] & up).any()
            if chosen:
                stages[n], way[n] = s, direction
                n += 1
    return Near(stages[:n], way[:n])


@njit(cache=True)
def run_of(graph: Graph, of: Ints, source: int, target: int, down: bool) -> Ints:
    """The order in which the members of one stage may leave it for another, one by one.

    down: whatever leaves takes along all that follows it in the stage (else: all that precedes it). Members with
    neighbours among those gone or in the target go first, then the last (else: first) ones by number. At most half of
    the stage, and at least one member less than all of it.
    """
    members = members_of(of, source)
    ahead, behind, sign = (AFTER, BEFORE, -1) if down else (BEFORE, AFTER, 1)
    inside, span = of == source, 2 * len(of)
    waiting = np.zeros(len(of), np.int64)  # how many of those ahead are inside
    heap = [0 for _ in range(0)]  # span * (touches nothing that is gone) + sign * member + span // 2
    for v in members:
        touches = False
        for e in range(graph.start[ahead, v], graph.start[ahead, v + 1]):
            waiting[v] += inside[graph.near[ahead, e]]
            touches |= of[graph.near[ahead, e]] == target
        for e in range(graph.start[behind, v], graph.start[behind, v + 1]):
            touches |= of[graph.near[behind, e]] == target
        if waiting[v] == 0:
            heapq.heappush(heap, (0 if touches else span) + sign * v + span // 2)
    run = np.empty(max(min(len(members) - 1, max(16, len(members) // 2)), 0), np.int64)
    n = 0
    while len(heap) > 0 and n < len(run):
        v = sign * (heapq.heappop(heap) % span - span // 2)
        run[n] = v
        n += 1
        for e in range(graph.start[behind, v], graph.start[behind, v + 1]):
            u = graph.near[behind, e]
            if inside[u]:
                waiting[u] -= 1
                if waiting[u] == 0:
                    heapq.heappush(heap, sign * u + span // 2)
    return run[:n]


@njit(cache=True)
def components_of(graph: Graph, label: Ints, chosen: int) -> Ints:
    """The weakly connected component of every super-operator with a label, counted from 0 in the order of their first
    members, -1 for others."""
    component, count = np.full(len(label), -1, np.int64), 0
    for v in range(len(label)):
        if label[v] != chosen or component[v] >= 0:
            continue
        todo = [v]
        component[v] = count
        while len(todo) > 0:
            u = todo.pop()
            for way in range(2):
                for e in range(graph.start[way, u], graph.start[way, u + 1]):
                    w = graph.near[way, e]
                    if label[w] == chosen and component[w] < 0:
                        component[w] = count
                        todo.append(w)
        count += 1
    return component


@njit(cache=True)
def _add_runs(
    changes: list[Change], facts: Facts, stages: Stages, busy: Floats, ends: tuple[int, int], down: bool
) -> None:
    """Add what runs of several lengths lead to, among them that after which both stages take about the same time.
    ends: the stage that gives and the one that gets them. busy: s of stages, [stages]."""
    source, target = ends
    run = run_of(facts.graph, stages.of, source, target, down)
    if len(run) == 0:
        return
    excess, levelling = (busy[source] - busy[target]) / 2, 1
    each = single_s(facts, stages.table[source])
    for v in run[:-1]:
        excess -= each[v] / stages.table[source, REPLICAS]
        if excess <= 0:
            break
        levelling += 1
    for length in range(1, len(run) + 1):
        if length in RUNS or length == levelling:
            lead_to(changes, moved(stages, source, target, run[:length]))


@njit(cache=True)
def add_shifts(changes: list[Change], facts: Facts, stages: Stages, stage: int, near: Near, busy: Floats) -> None:
    """A run of super-operators goes to a neighbour or comes from it, or a whole component goes. busy: s of stages."""
    component = components_of(facts.graph, stages.of, stage)
    for i in range(len(near.stage)):
        other, way = near.stage[i], near.way[i]
        for down in (True, False):
            if way != (UP if down else DOWN):
                _add_runs(changes, facts, stages, busy, (stage, other), down)
                _add_runs(changes, facts, stages, busy, (other, stage), not down)
        if np.max(component) > 0:
            for one in range(np.max(component) + 1):
                lead_to(changes, moved(stages, stage, other, members_of(component, one)))


@njit(cache=True)
def add_cascades(changes: list[Change], facts: Facts, stages: Stages, stage: int, after: Bools, busy: Floats) -> None:
    """A stage gives to its neighbour, that to the next, and so on down to one that has time to spare. busy: s of
    stages."""
    count = len(stages.table)
    if count > FAR:
        return
    came_from, down = np.full(count, -1, np.int64), np.zeros(count, np.bool_)
    came_from[stage] = stage
    queue = [stage]
    for at in range(count):
        if at == len(queue):
            break
        near = near_to(after, queue[at])
        for i in range(len(near.stage)):
            other, way = near.stage[i], near.way[i]
            if came_from[other] < 0 and way != BOTH:
                came_from[other], down[other] = queue[at], way == DOWN
                queue.append(other)
    reached = np.array(queue)[1:]
    for target in reached[np.argsort(busy[reached], kind="mergesort")][:4]:
        if came_from[target] == stage:
            continue
        for length in CASCADED:
            of, b = stages.of.copy(), target
            while b != stage:
                a = came_from[b]
                of[run_of(facts.graph, stages.of, a, b, down[b])[:length]] = b
                b = a
            if np.all(np.bincount(of, minlength=count) > 0):
                lead_to(changes, Stages(of, stages.table))


@njit(cache=True)
def add_swaps(changes: list[Change], facts: Facts, stages: Stages, stage: int, near: Near) -> None:
    """One of the first two super-operators that might leave, for one of the neighbour's first two."""
    for i in range(len(near.stage)):
        other, way = near.stage[i], near.way[i]
        for down in (True, False):
            if way == (UP if down else DOWN):
                continue
            leaving = run_of(facts.graph, stages.of, stage, other, down)[:LONGEST_SWAP]
            for u in leaving:
                for v in run_of(facts.graph, stages.of, other, stage, not down)[:LONGEST_SWAP]:
                    of = stages.of.copy()
                    of[u], of[v] = other, stage
                    lead_to(changes, Stages(of, stages.table))
