"""Which operators of a graph must share a device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.problem.graph import OpGraph, per_graph


@per_graph
def together(graph: OpGraph) -> tuple[tuple[int, ...], ...]:
    """Operators that must share a device: same co-location, or mirrors of one forward operator."""
    parent = list(range(len(graph)))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    first: dict[str, int] = {}
    for position, operator in enumerate(graph.operators):
        others = [operator.forward_of]
        if operator.colocation is not None:
            others.append(first.setdefault(operator.colocation, position))
        for other in others:
            if other is not None:
                parent[root(position)] = root(other)
    groups: dict[int, list[int]] = {}
    for position in range(len(graph)):
        groups.setdefault(root(position), []).append(position)
    return tuple(tuple(group) for group in groups.values())


@per_graph
def group_of(graph: OpGraph) -> NDArray[np.int64]:
    """The number of each operator's group, shape [operators]."""
    number = np.empty(len(graph), np.int64)
    for position, group in enumerate(together(graph)):
        number[list(group)] = position
    return number
