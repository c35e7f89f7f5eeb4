"""What stages hold between the two parts of a backward, on plain arrays.

The gradients of inputs (I) are those that another stage reads: operators of I that lead to none run with W. While
gradients of parameters wait, what I handed to anything that W runs is held: gradients of outputs. So is what was saved,
for all operators before the last whose gradients wait: an engine keeps the graph of their backward whole (of torch
`retain_graph`, in its own halves too). What was saved behind those, as by a loss, goes when I is done.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.evaluation.tasks import F, I, Units, W
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit

BACKWARD = (1, 2)
"""Phases of a backward: positions in `columns.PHASES`."""


class Flow(NamedTuple):
    """What operators hand on and save: columns of `columns.GraphColumns` of these names."""

    phase: Ints
    forward_of: Ints
    saved_bytes: Floats
    output_start: Ints
    output: Ints
    input_start: Ints
    input: Ints
    tensor_bytes: Floats
    sum_group: Ints
    consumer_start: Ints
    consumer: Ints


@njit(cache=True)
def _crosses(flow: Flow, tensor: int) -> bool:
    return bool(flow.tensor_bytes[tensor, 0] > 0 or flow.tensor_bytes[tensor, 1] > 0)


@njit(cache=True)
def _on_way(flow: Flow, home: Ints, maker: Ints, inputs: Ints, unit: int) -> Bools:
    """[operators] whether a gradient that an operator of ``unit`` makes leads to another stage. maker: of tensors."""
    found, todo = np.zeros(len(home), np.bool_), [np.int64(0) for _ in range(0)]
    for o in inputs:
        for e in range(flow.output_start[o], flow.output_start[o + 1]):
            t = flow.output[e]
            for f in range(flow.consumer_start[t], flow.consumer_start[t + 1]):
                reader = flow.consumer[f]
                leaves = home[reader] < 0 and flow.phase[reader] in BACKWARD and _crosses(flow, t)
                if leaves and not found[o]:
                    found[o] = True
                    todo.append(o)
    while len(todo):
        o = todo.pop()
        for e in range(flow.input_start[o], flow.input_start[o + 1]):
            p = maker[flow.input[e]]
            if p >= 0 and home[p] == unit and not found[p] and _crosses(flow, flow.input[e]):
                found[p] = True
                todo.append(p)
    return found


@njit(cache=True)
def _waiting(flow: Flow, home: Ints, maker: Ints, forwards: Ints, inputs: Ints, weights: Ints, on_way: Bools) -> Bools:
    """[operators] whether what a forward operator saved is held until W: it or one that its result reaches in the stage
    has gradients that wait. inputs, weights: operators of I and W."""
    count = len(home)
    mirrored, first, waits = np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for o in inputs:
        mirrored[flow.forward_of[o]], first[flow.forward_of[o]] = True, on_way[o]
    for o in weights:
        mirrored[flow.forward_of[o]] = waits[flow.forward_of[o]] = True
    todo = [np.int64(0) for _ in range(0)]
    for o in forwards:
        waits[o] |= mirrored[o] and not first[o]
        for e in range(flow.input_start[o], flow.input_start[o + 1]):
            p = maker[flow.input[e]]
            waits[o] |= p >= 0 and home[p] == home[o] and mirrored[p] and not first[p]
        if waits[o]:
            todo.append(o)
    while len(todo):
        o = todo.pop()
        for e in range(flow.input_start[o], flow.input_start[o + 1]):
            p = maker[flow.input[e]]
            if p >= 0 and home[p] == home[o] and not waits[p]:
                waits[p] = True
                todo.append(p)
    return waits


@njit(cache=True)
def held_until_next(flow: Flow, units: Units, share: Floats, parted: Bools) -> Floats:
    """[units] B that a task of a unit holds until the next part of its stage's micro-batch has ended: an F, of what it
    saves, until I; an I, of what it makes, until W.

    share: samples of a task, [units]. parted: stages whose backward is done in two parts, [stages].
    """
    held = np.zeros(len(units.stage))
    home, maker = np.full(len(flow.phase), -1, np.int64), np.full(len(flow.tensor_bytes), -1, np.int64)
    seen = np.zeros(np.max(flow.sum_group) + 2 if len(flow.sum_group) else 1, np.bool_)
    for u in range(1, len(units.stage) - 1):
        stage = units.stage[u]
        whole = units.stage[u - 1] == stage and units.stage[u + 1] == stage and units.operator[u] < 0
        if not whole or not parted[stage] or (units.kind[u - 1], units.kind[u], units.kind[u + 1]) != (F, I, W):
            continue
        begin = units.member_start
        for v in range(u - 1, u + 2):
            for o in units.member[begin[v] : begin[v + 1]]:
                home[o] = v
                for e in range(flow.output_start[o], flow.output_start[o + 1]):
                    maker[flow.output[e]] = o
        forwards, inputs, weights = (
            units.member[begin[u - 1] : begin[u]],
            units.member[begin[u] : begin[u + 1]],
            units.member[begin[u + 1] : begin[u + 2]],
        )
        on_way = _on_way(flow, home, maker, inputs, u)
        waits = _waiting(flow, home, maker, forwards, inputs, weights, on_way)
        for o in forwards:
            if not waits[o]:
                held[u - 1] += flow.saved_bytes[o, 0] + flow.saved_bytes[o, 1] * share[u]
        for o in inputs:
            for e in range(flow.output_start[o], flow.output_start[o + 1] if on_way[o] else flow.output_start[o]):
                t, group, read = flow.output[e], flow.sum_group[flow.output[e]], False
                for f in range(flow.consumer_start[t], flow.consumer_start[t + 1]):
                    reader = flow.consumer[f]
                    read |= home[reader] == u + 1 or (home[reader] == u and not on_way[reader])
                if read and not seen[group]:
                    seen[group] = group >= 0  # partial gradients are added up where they are made
                    held[u] += flow.tensor_bytes[t, 0] + flow.tensor_bytes[t, 1] * share[u]
        for v in range(u - 1, u + 2):
            for o in units.member[begin[v] : begin[v + 1]]:
                home[o] = -1
                for e in range(flow.output_start[o], flow.output_start[o + 1]):
                    maker[flow.output[e]] = -1
                    seen[flow.sum_group[flow.output[e]]] = False
    return held
