"""The orders of the stages of a draft, on plain arrays."""

from __future__ import annotations

import numpy as np

from solvers.evaluation.tasks import B, F, I, U, W
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit
from solvers.pipelines.timing.stages_kernel import KINDS, StageCosts, topological
from solvers.schedules.ordering.eager_order_kernel import EagerActions, eager


@njit(cache=True)
def alternating(
    stage: int, forward: bool, backward: bool, count: int, in_flight: int, block: int, unit: Ints, micro: Ints
) -> int:
    """Write the order of one stage, see `solvers.schedules.ordering.patterns.alternate`, to unit and micro; return its
    length."""
    n = 0
    if not (forward and backward):
        for j in range(count):
            if forward or backward:
                unit[n], micro[n] = KINDS * stage + (F if forward else B), j
                n += 1
        return n
    for j in range(min(in_flight, count)):
        unit[n], micro[n] = KINDS * stage + F, j
        n += 1
    for j in range(0, count, block):
        for i in range(j, min(j + block, count)):
            unit[n], micro[n] = KINDS * stage + B, i
            n += 1
        for i in range(in_flight + j, min(in_flight + j + block, count)):
            unit[n], micro[n] = KINDS * stage + F, i
            n += 1
    return n


@njit(cache=True)
def in_parts(stage: int, exists: Bools, count: int, in_flight: int, lag: int, unit: Ints, micro: Ints) -> int:
    """Write the order of one stage, see `solvers.schedules.ordering.patterns.alternate`, to unit and micro;
    return its length."""
    forward, inputs, weights = KINDS * stage + F, KINDS * stage + I, KINDS * stage + W
    n = 0
    for j in range(in_flight if exists[forward] else 0):
        unit[n], micro[n] = forward, j
        n += 1
    for j in range(count):
        if exists[inputs]:
            unit[n], micro[n] = inputs, j
            n += 1
        if exists[weights] and j >= lag:
            unit[n], micro[n] = weights, j - lag
            n += 1
        if exists[forward] and j + in_flight < count:
            unit[n], micro[n] = forward, j + in_flight
            n += 1
    for j in range(max(count - lag, 0), count if exists[weights] else 0):
        unit[n], micro[n] = weights, j
        n += 1
    return n


@njit(cache=True)
def _actions(
    exists: Bools, seconds: Floats, waits: Bools, counts: Ints, size: Ints, in_flight: Ints, group: Ints
) -> EagerActions:
    stages = len(counts)
    has, duration = np.zeros(2 * stages, np.bool_), np.zeros(2 * stages)
    most = 2 * stages
    for s in range(stages):
        for k in range(2):
            has[2 * s + k], duration[2 * s + k] = exists[KINDS * s + k], seconds[KINDS * s + k]
            for other in range(2):
                most += np.sum(waits[k, other, s])
    read_start, reads = np.zeros(2 * stages + 1, np.int64), np.zeros(most, np.int64)
    n = 0
    for a in range(2 * stages):
        for b in range(2 * stages):
            own = a % 2 == 1 and b == a - 1
            if has[a] and has[b] and (own or waits[b % 2, a % 2, b // 2, a // 2]):
                reads[n] = b
                n += 1
        read_start[a + 1] = n
    return EagerActions(has, duration, counts, size, in_flight, np.arange(stages + 1), group, read_start, reads[:n])


@njit(cache=True)
def _wanted(exists: Bools, counts: Ints) -> int:
    """How many forwards and backwards there are."""
    total = 0
    for s in range(len(counts)):
        for kind in (F, B):
            if exists[KINDS * s + kind]:
                total += counts[s]
    return total


@njit(cache=True)
def orders_of(
    costs: StageCosts,
    waits: Bools,
    counts: Ints,
    size: Ints,
    in_flight: Ints,
    block: Ints,
    group: Ints,
    groups: int,
    forward_first: bool,
) -> tuple[bool, Ints, Ints, Ints]:
    """(whether there is one, order_start, unit, micro): the order of devices g is order_start[g]:order_start[g + 1].

    As `solvers.schedules.ordering.orders.pipeline_order`: patterns if all stages have devices of their own, else
    whatever is ready first; updates at the end. Where backwards are in two parts these are ZB-H1 (Qi et al., ICLR
    2024), which stages that share devices have not. waits: see `stages_kernel.waits_of`. counts, size, keeps, block,
    group: micro-batches, samples of one, how many are kept in flight, the k of kFkB, and devices, of every stage.
    """
    stages, exists = len(counts), costs.exists
    order_start = np.zeros(groups + 1, np.int64)
    own = np.zeros(groups, np.int64)
    for s in range(stages):
        own[group[s]] += 1
        for kind in range(KINDS):
            if exists[KINDS * s + kind]:
                order_start[group[s] + 1] += 1 if kind == U else counts[s]
    for g in range(groups):
        order_start[g + 1] += order_start[g]
    unit, micro = np.zeros(order_start[groups], np.int64), np.zeros(order_start[groups], np.int64)
    if np.max(own) <= 1:
        most = np.max(in_flight * size)
        for s in range(stages):
            low, high = order_start[group[s]], order_start[group[s] + 1]
            if exists[KINDS * s + I] or exists[KINDS * s + W]:
                lag = max(in_flight[s], most // size[s]) - in_flight[s]
                in_parts(s, exists, counts[s], in_flight[s], lag, unit[low:high], micro[low:high])
                continue
            forward, backward = exists[KINDS * s + F], exists[KINDS * s + B]
            alternating(s, forward, backward, counts[s], in_flight[s], block[s], unit[low:high], micro[low:high])
    else:
        sequence = eager(_actions(exists, costs.seconds, waits, counts, size, in_flight, group), groups, forward_first)
        at, done = order_start.copy(), np.zeros(2 * stages, np.int64)
        for a in sequence:
            g = group[a // 2]
            unit[at[g]], micro[at[g]] = KINDS * (a // 2) + a % 2, done[a]
            at[g] += 1
            done[a] += 1
        if len(sequence) < _wanted(exists, counts):
            return False, order_start, unit, micro
    updates = topological(waits[2, 2])
    if len(updates) < stages:
        return False, order_start, unit, micro
    at = order_start[1:].copy()
    for rank in range(stages - 1, -1, -1):
        s = updates[rank]
        if exists[KINDS * s + U]:
            at[group[s]] -= 1
            unit[at[group[s]]], micro[at[group[s]]] = KINDS * s + U, 0
    return True, order_start, unit, micro
