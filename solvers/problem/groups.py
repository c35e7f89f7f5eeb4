"""Which operators of a graph must share a device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.problem.graph import OpGraph, per_graph
from solvers.problem.ties import Ties


@per_graph
def together(graph: OpGraph) -> tuple[tuple[int, ...], ...]:
    """Operators that must share a device: same co-location, or mirrors of one forward operator."""
    ties = Ties(len(graph))
    first: dict[str, int] = {}
    for position, operator in enumerate(graph.operators):
        others = [operator.forward_of]
        if operator.colocation is not None:
            others.append(first.setdefault(operator.colocation, position))
        for other in others:
            if other is not None:
                ties.tie(position, other)
    groups: dict[int, list[int]] = {}
    for position in range(len(graph)):
        groups.setdefault(ties.root(position), []).append(position)
    return tuple(tuple(group) for group in groups.values())


@per_graph
def group_of(graph: OpGraph) -> NDArray[np.int64]:
    """The number of each operator's group, shape [operators]."""
    number = np.empty(len(graph), np.int64)
    for position, group in enumerate(together(graph)):
        number[list(group)] = position
    return number
