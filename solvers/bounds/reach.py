"""What has to run before an operator, and what after it on the devices before its own: sums along all paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from solvers.bounds.paths import with_whole_backwards
from solvers.kernels.arrays import Floats
from solvers.plan.contiguity import forward_edges
from solvers.plan.successors import with_mirrors
from solvers.problem.graph import OpGraph, Phase, per_graph, topological_order
from solvers.problem.groups import group_of, together

ROWS_AT_ONCE = 512

Ahead = tuple[NDArray[np.int64], NDArray[np.uint8]]
"""Operators, ascending, and for each as bits which of these very operators are meant."""


def upstream_s(graph: OpGraph, seconds: Floats) -> Floats:
    """Of all forward operators that an operator waits for, not through copies, [operators]; of others 0."""
    return _summed(_before(graph), seconds)


def downstream_s(graph: OpGraph, seconds: Floats, *, whole: bool) -> Floats:
    """Of all backward operators that wait for a backward operator, and whose groups come before its own in the forward
    graph, [operators]; of others 0. whole: as in `heads_and_tails_s`."""
    return _summed(_behind_whole(graph) if whole else _behind(graph), seconds)


def _summed(ahead: Ahead, seconds: Floats) -> Floats:
    operators, rows = ahead
    sums, chosen = np.zeros(len(seconds)), seconds[operators].astype(np.float64)
    for begin in range(0, len(operators), ROWS_AT_ONCE):
        part = np.unpackbits(rows[begin : begin + ROWS_AT_ONCE], axis=1, count=len(operators), bitorder="little")
        sums[operators[begin : begin + ROWS_AT_ONCE]] = part @ chosen
    return sums


@per_graph
def _before(graph: OpGraph) -> Ahead:
    forward = [o.phase is Phase.FORWARD and not o.replicable for o in graph.operators]
    operators, _, masks = _along(forward, graph.predecessors, graph.topological_order)
    return np.array(operators, np.int64), _packed([masks[operator] for operator in operators])


@per_graph
def _behind(graph: OpGraph) -> Ahead:
    return _reached(graph, *with_mirrors(graph))


@per_graph
def _behind_whole(graph: OpGraph) -> Ahead:
    return _reached(graph, *with_whole_backwards(graph))


def _reached(graph: OpGraph, after: Sequence[Sequence[int]], order: Sequence[int]) -> Ahead:
    backward = [o.phase not in (Phase.FORWARD, Phase.UPDATE) and not o.replicable for o in graph.operators]
    operators, rank, masks = _along(backward, after, order[::-1])
    number, earlier = group_of(graph).tolist(), _earlier(graph, rank)
    inside = [masks[operator] & earlier[number[operator]] for operator in operators]
    return np.array(operators, np.int64), _packed(inside)


def _along(
    meant: Sequence[bool], near: Sequence[Sequence[int]], order: Sequence[int]
) -> tuple[list[int], dict[int, int], list[int]]:
    """The operators that are meant; which of them each is; and, as bits, which are met on the way from each operator
    along ``near``. order: every operator after those near it."""
    operators = [operator for operator, is_meant in enumerate(meant) if is_meant]
    rank = {operator: number for number, operator in enumerate(operators)}
    masks = [0] * len(meant)
    for operator in order:
        if meant[operator]:
            for other in near[operator]:
                if meant[other]:
                    masks[operator] |= masks[other] | 1 << rank[other]
    return operators, rank, masks


def _earlier(graph: OpGraph, rank: Mapping[int, int]) -> list[int]:
    """Ranked operators of all groups before each in the forward graph, [groups] as bits; none where these form a
    cycle."""
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
    members = [sum(1 << rank[operator] for operator in group if operator in rank) for group in groups]
    for group in order:
        for target in after[group]:
            earlier[target] |= earlier[group] | members[group]
    return earlier


def _packed(masks: Sequence[int]) -> NDArray[np.uint8]:
    width = (len(masks) + 7) // 8
    return np.frombuffer(b"".join(mask.to_bytes(width, "little") for mask in masks), np.uint8).reshape(
        len(masks), width
    )
