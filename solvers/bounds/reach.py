"""What has to run before an operator, and what after it on the devices before its own: sums along all paths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.bounds.paths import with_mirrors, with_whole_backwards
from solvers.kernels.arrays import Floats
from solvers.plan.contiguity import forward_edges
from solvers.problem.graph import OpGraph, Phase, per_graph, topological_order
from solvers.problem.groups import group_of, together

ROWS_AT_ONCE = 512

Bits = NDArray[np.uint8]


def upstream_s(graph: OpGraph, seconds: Floats) -> Floats:
    """Of all forward operators that an operator waits for, not through copies, [operators]; of others 0."""
    return _summed(_before(graph), seconds)


def downstream_s(graph: OpGraph, seconds: Floats, *, whole: bool) -> Floats:
    """Of all backward operators that wait for a backward operator, and whose groups come before its own in the forward
    graph, [operators]; of others 0. whole: as in `heads_and_tails_s`."""
    return _summed(_behind_whole(graph) if whole else _behind(graph), seconds)


def _summed(rows: Bits, seconds: Floats) -> Floats:
    found = np.zeros(len(rows))
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        part = np.unpackbits(rows[begin : begin + ROWS_AT_ONCE], axis=1, count=len(seconds), bitorder="little")
        found[begin : begin + ROWS_AT_ONCE] = part @ seconds
    return found


@per_graph
def _before(graph: OpGraph) -> Bits:
    """[operators, operators] as bits."""
    forward = [o.phase is Phase.FORWARD and not o.replicable for o in graph.operators]
    masks = [0] * len(graph)
    for operator in graph.topological_order:
        if forward[operator]:
            for source in graph.predecessors[operator]:
                if forward[source]:
                    masks[operator] |= masks[source] | 1 << source
    return _packed(masks)


@per_graph
def _behind(graph: OpGraph) -> Bits:
    return _reached(graph, *with_mirrors(graph))


@per_graph
def _behind_whole(graph: OpGraph) -> Bits:
    return _reached(graph, *with_whole_backwards(graph))


def _reached(graph: OpGraph, after: Sequence[Sequence[int]], order: Sequence[int]) -> Bits:
    backward = [o.phase not in (Phase.FORWARD, Phase.UPDATE) and not o.replicable for o in graph.operators]
    masks = [0] * len(graph)
    for operator in reversed(order):
        if backward[operator]:
            for target in after[operator]:
                if backward[target]:
                    masks[operator] |= masks[target] | 1 << target
    number, earlier = group_of(graph).tolist(), _earlier(graph)
    return _packed([mask & earlier[group] for mask, group in zip(masks, number, strict=True)])


def _earlier(graph: OpGraph) -> list[int]:
    """Operators of all groups before each in the forward graph, [groups] as bits; none where these form a cycle."""
    number, groups = group_of(graph).tolist(), together(graph)
    after: list[set[int]] = [set() for _ in groups]
    for u, v in forward_edges(graph):
        copied = graph.operators[u].replicable or graph.operators[v].replicable
        if number[u] != number[v] and not copied:
            after[number[u]].add(number[v])
    order = topological_order([sorted(targets) for targets in after])
    earlier = [0] * len(groups)
    if len(order) < len(groups):
        return earlier
    members = [sum(1 << operator for operator in group) for group in groups]
    for group in order:
        for target in after[group]:
            earlier[target] |= earlier[group] | members[group]
    return earlier


def _packed(masks: Sequence[int]) -> Bits:
    width = (len(masks) + 7) // 8
    return np.frombuffer(b"".join(mask.to_bytes(width, "little") for mask in masks), np.uint8).reshape(-1, width)
