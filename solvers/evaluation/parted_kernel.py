"""What stages hold between the two parts of a backward, on plain arrays.

The gradients of inputs (I) are those that another stage reads: operators of I that lead to none run with W. While
gradients of parameters wait, what I handed to anything that W runs is held: gradients of outputs. So is what was saved,
for all operators before the last whose gradients wait: an engine keeps the graph of their backward whole (of torch
`retain_graph`, in its own halves too). What was saved behind those, as by a loss, goes when I is done.
"""

from __future__ import annotations

import numpy as np

from solvers.evaluation.columns import GraphColumns
from solvers.evaluation.tasks import F, I, Units, W
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.lazy import njit

BACKWARD = (1, 2)
"""Phases of a backward: positions in `columns.PHASES`."""


@njit(cache=True)
def _crosses(graph: GraphColumns, tensor: int) -> bool:
    return bool(graph.tensor_bytes[tensor, 0] > 0 or graph.tensor_bytes[tensor, 1] > 0)


@njit(cache=True)
def _on_way(graph: GraphColumns, home: Ints, maker: Ints, inputs: Ints, unit: int) -> Bools:
    """[operators] whether a gradient that an operator of ``unit`` makes leads to another stage. maker: of tensors."""
    leads, todo = np.zeros(len(home), np.bool_), [np.int64(0) for _ in range(0)]
    for o in inputs:
        for e in range(graph.output_start[o], graph.output_start[o + 1]):
            t = graph.output[e]
            for f in range(graph.consumer_start[t], graph.consumer_start[t + 1]):
                reader = graph.consumer[f]
                leaves = home[reader] < 0 and graph.phase[reader] in BACKWARD and _crosses(graph, t)
                if leaves and not leads[o]:
                    leads[o] = True
                    todo.append(o)
    while len(todo):
        o = todo.pop()
        for e in range(graph.input_start[o], graph.input_start[o + 1]):
            p = maker[graph.input[e]]
            if p >= 0 and home[p] == unit and not leads[p] and _crosses(graph, graph.input[e]):
                leads[p] = True
                todo.append(p)
    return leads


@njit(cache=True)
def _waiting(
    graph: GraphColumns, home: Ints, maker: Ints, forwards: Ints, inputs: Ints, weights: Ints, on_way: Bools
) -> Bools:
    """[operators] whether what a forward operator saved is held until W: it or one that its result reaches in the stage
    has gradients that wait. inputs, weights: operators of I and W."""
    count = len(home)
    mirrored, first, waits = np.zeros(count, np.bool_), np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for o in inputs:
        mirrored[graph.forward_of[o]], first[graph.forward_of[o]] = True, on_way[o]
    for o in weights:
        mirrored[graph.forward_of[o]] = waits[graph.forward_of[o]] = True
    todo = [np.int64(0) for _ in range(0)]
    for o in forwards:
        waits[o] |= mirrored[o] and not first[o]
        for e in range(graph.input_start[o], graph.input_start[o + 1]):
            p = maker[graph.input[e]]
            waits[o] |= p >= 0 and home[p] == home[o] and mirrored[p] and not first[p]
        if waits[o]:
            todo.append(o)
    while len(todo):
        o = todo.pop()
        for e in range(graph.input_start[o], graph.input_start[o + 1]):
            p = maker[graph.input[e]]
            if p >= 0 and home[p] == home[o] and not waits[p]:
                waits[p] = True
                todo.append(p)
    return waits


@until_worth_it
@njit(cache=True)
def held_until_next(graph: GraphColumns, units: Units, share: Floats, parted: Bools) -> Floats:
    """[units] B that a task of a unit holds until the next part of its stage's micro-batch has ended: an F, of what it
    saves, until I; an I, of what it makes, until W.

    share: samples of a task, [units]. parted: stages whose backward is done in two parts, [stages].
    """
    held = np.zeros(len(units.stage))
    home, maker = np.full(len(graph.phase), -1, np.int64), np.full(len(graph.tensor_bytes), -1, np.int64)
    seen = np.zeros(np.max(graph.sum_group) + 2 if len(graph.sum_group) else 1, np.bool_)
    for u in range(1, len(units.stage) - 1):
        stage = units.stage[u]
        whole = units.stage[u - 1] == stage and units.stage[u + 1] == stage and units.operator[u] < 0
        if not whole or not parted[stage] or (units.kind[u - 1], units.kind[u], units.kind[u + 1]) != (F, I, W):
            continue
        begin = units.member_start
        for v in range(u - 1, u + 2):
            for o in units.member[begin[v] : begin[v + 1]]:
                home[o] = v
                for e in range(graph.output_start[o], graph.output_start[o + 1]):
                    maker[graph.output[e]] = o
        forwards, inputs, weights = (
            units.member[begin[u - 1] : begin[u]],
            units.member[begin[u] : begin[u + 1]],
            units.member[begin[u + 1] : begin[u + 2]],
        )
        on_way = _on_way(graph, home, maker, inputs, u)
        waits = _waiting(graph, home, maker, forwards, inputs, weights, on_way)
        for o in forwards:
            if not waits[o]:
                held[u - 1] += graph.saved_bytes[o, 0] + graph.saved_bytes[o, 1] * share[u]
        for o in inputs:
            for e in range(graph.output_start[o], graph.output_start[o + 1] if on_way[o] else graph.output_start[o]):
                t, group, read = graph.output[e], graph.sum_group[graph.output[e]], False
                for f in range(graph.consumer_start[t], graph.consumer_start[t + 1]):
                    reader = graph.consumer[f]
                    read |= home[reader] == u + 1 or (home[reader] == u and not on_way[reader])
                if read and not seen[group]:
                    seen[group] = group >= 0  # partial gradients are added up where they are made
                    held[u] += graph.tensor_bytes[t, 0] + graph.tensor_bytes[t, 1] * share[u]
        for v in range(u - 1, u + 2):
            for o in units.member[begin[v] : begin[v + 1]]:
                home[o] = -1
                for e in range(graph.output_start[o], graph.output_start[o + 1]):
                    maker[graph.output[e]] = -1
                    seen[graph.sum_group[graph.output[e]]] = False
    return held
