"""What the stages of a draft take and hold, and which of them wait for which, on plain arrays.

A unit is a stage doing one kind of thing: unit ``5 * stage + kind``, the kinds in the order F, B, I, W, U.
Phases of operators are numbered forward 0, gradients of inputs 1, of parameters 2, update 3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.evaluation.tasks import B, F, I, U, W
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit

KINDS = 5


class Operators(NamedTuple):
    """Operators in topological order, and what they cost per configuration: samples on a device of some kind."""

    node: Ints
    """[operators] the super-operator"""
    phase: Ints
    """[operators]"""
    static: Floats
    """[configurations, operators] B held all the time"""
    gathered: Floats
    """[configurations, operators] B of parameters that replicas gather, of one operator of a stage at a time"""
    gradient: Floats
    """[configurations, operators] B of gradients that replicas add up, of forward operators"""
    seconds: Floats
    """[configurations, operators] s"""
    saved: Floats
    """[configurations, operators] B"""
    workspace: Floats
    """[configurations, operators] B"""
    params: Floats
    """[operators] B that replicas gather before a micro-batch goes through"""


class StageCosts(NamedTuple):
    """What units and stages take and hold. Unit 5 x stage + kind."""

    exists: Bools
    """[units] whether it has operators"""
    seconds: Floats
    """[units] s of a micro-batch"""
    workspace: Floats
    """[units] B, the largest of its operators"""
    saved: Floats
    """[stages] B of a micro-batch"""
    static: Floats
    """[stages] B held all the time"""
    gradient: Floats
    """[stages] B that replicas add up"""


@njit(cache=True)
def unit_numbers(stages: int, split: bool) -> Ints:
    """The unit that runs the operators of every stage and phase, [stages, phases]; split: gradients of
    parameters run by themselves."""
    unit = np.empty((stages, 4), np.int64)
    for stage in range(stages):
        unit[stage, 0] = KINDS * stage + F
        unit[stage, 1] = KINDS * stage + (I if split else B)
        unit[stage, 2] = KINDS * stage + (W if split else B)
        unit[stage, 3] = KINDS * stage + U
    return unit


@njit(cache=True)
def runs_again(exists: Bools, unit: int) -> bool:
    """Whether a backward unit of a stage that recomputes is the one that runs its forward again."""
    return unit % KINDS in (B, I) or (unit % KINDS == W and not exists[unit - W + I])


@njit(cache=True)
def stage_costs(operators: Operators, stage_of: Ints, unit_of: Ints, config: Ints, again: Bools) -> StageCosts:
    """What the stages of a draft cost.

    stage_of: of every super-operator. unit_of: see `unit_numbers`. config: the row of the costs of every
    stage. again: stages that recompute.
    """
    stages = len(config)
    units = KINDS * stages
    exists = np.zeros(units, np.bool_)
    workspace = np.zeros(units)
    saved, static, gradient = np.zeros(stages), np.zeros(stages), np.zeros(stages)
    total = np.zeros(units)
    node, phase_of, static_of, gathered_of, gradient_of, seconds_of, saved_of, workspace_of, _ = operators
    gathered = np.zeros(stages)
    for o in range(len(node)):
        stage, phase = stage_of[node[o]], phase_of[o]
        unit, row = unit_of[stage, phase], config[stage]
        total[unit] += seconds_of[row, o]
        exists[unit] = True
        workspace[unit] = max(workspace[unit], workspace_of[row, o])
        static[stage] += static_of[row, o]
        gathered[stage] = max(gathered[stage], gathered_of[row, o])
        if phase == 0:
            saved[stage] += saved_of[row, o]
            gradient[stage] += gradient_of[row, o]
    for stage in range(stages):
        static[stage] += gathered[stage]
        if again[stage]:
            for unit in range(KINDS * stage + B, KINDS * stage + U):
                if exists[unit] and runs_again(exists, unit):
                    total[unit] += total[KINDS * stage + F]
    return StageCosts(exists, total, workspace, saved, static, gradient)


@njit(cache=True)
def gathers_of(operators: Operators, stage_of: Ints, stages: int) -> Floats:
    """Bytes of parameters that replicas gather: of the first operator of a stage that has some, of its last, and of
    all, [3, stages]."""
    gathers = np.zeros((3, stages))
    for o in range(len(operators.node)):
        stage, nbytes = stage_of[operators.node[o]], operators.params[o]
        if nbytes > 0:
            if gathers[2, stage] == 0:
                gathers[0, stage] = nbytes
            gathers[1, stage] = nbytes
            gathers[2, stage] += nbytes
    return gathers


@njit(cache=True)
def wait_for_gathers(
    gathers: Floats, replicas: int, stage: int, latency_s: float, s_per_byte: float, exists: Bools, seconds: Floats
) -> None:
    """Add to the seconds of a stage's units what they wait for parameters: `solvers.problem.gathering`."""
    share_s, begin_s = (replicas - 1) / replicas * s_per_byte, (replicas - 1) * latency_s
    for unit in range(KINDS * stage, KINDS * stage + U):
        if exists[unit] and (unit % KINDS == F or runs_again(exists, unit)):
            own = gathers[0 if unit % KINDS == F else 1, stage]
            seconds[unit] = begin_s + share_s * own + max(seconds[unit], share_s * (gathers[2, stage] - own))


@njit(cache=True)
def quotient(stage_of: Ints, stages: int, edges: Ints) -> Bools:
    """Which stage has an edge to which other, [stages, stages]; edges: pairs of super-operators."""
    after = np.zeros((stages, stages), np.bool_)
    for e in range(len(edges)):
        u, v = stage_of[edges[e, 0]], stage_of[edges[e, 1]]
        if u != v:
            after[u, v] = True
    return after


@njit(cache=True)
def waits_of(stage_of: Ints, stages: int, reads: Ints) -> Bools:
    """Whether a stage's operators of a kind (F 0, B 1, U 2) read tensors of another's: [producer's kind,
    reader's kind, producer, reader]. reads: rows of producer's and reader's super-operators and 3 * kind + kind."""
    waits = np.zeros((3, 3, stages, stages), np.bool_)
    for e in range(len(reads)):
        u, v = stage_of[reads[e, 0]], stage_of[reads[e, 1]]
        if u != v:
            waits[reads[e, 2] // 3, reads[e, 2] % 3, u, v] = True
    return waits


@njit(cache=True)
def topological(after: Bools) -> Ints:
    """A topological order, lowest number first among the ready; shorter if there is a cycle."""
    count = len(after)
    waiting = np.zeros(count, np.int64)
    for u in range(count):
        for v in range(count):
            waiting[v] += after[u, v]
    order = np.empty(count, np.int64)
    ordered = 0
    while ordered < count:
        u = 0
        while u < count and waiting[u] != 0:
            u += 1
        if u == count:
            break
        order[ordered] = u
        ordered += 1
        waiting[u] = -1
        for v in range(count):
            waiting[v] -= after[u, v]
    return order[:ordered]


@njit(cache=True)
def in_flight(after: Bools, size: Ints, block: Ints, slack: Ints, mini_batch: int, weightless: Bools) -> Ints:
    """Micro-batches every stage keeps: the rule of `solvers.schedules.ordering.in_flight`, and slack. after has no
    cycle."""
    stages = len(size)
    order = topological(after)
    samples = np.zeros(stages, np.int64)
    flights = np.zeros(stages, np.int64)
    for rank in range(len(order) - 1, -1, -1):
        stage = order[rank]
        count = mini_batch // size[stage]
        own = need = min(block[stage], count) * size[stage]
        for y in range(stages):
            if after[stage, y]:
                beside = max(own, min(block[y], mini_batch // size[y]) * size[y])
                need = max(need, samples[y] + (0 if weightless[y] else beside))
        samples[stage] = min(mini_batch, -(-need // size[stage]) * size[stage])
        flights[stage] = min(count, samples[stage] // size[stage] + slack[stage])
    return flights
