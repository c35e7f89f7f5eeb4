"""The shortest ways in and out: the longest paths before and after every operator, by operator time."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.problem.graph import OpGraph, per_graph, topological_order


def heads_and_tails_s(graph: OpGraph, seconds: Floats) -> tuple[Floats, Floats]:
    """Longest path by operator time before and after every operator, itself excluded, [operators].

    A mirror comes after its forward operator.
    """
    after, order = _with_mirrors(graph)
    took = seconds.tolist()
    head, tail = [0.0] * len(graph), [0.0] * len(graph)
    for operator in order:
        end = head[operator] + took[operator]
        for target in after[operator]:
            if end > head[target]:
                head[target] = end
    for operator in reversed(order):
        tail[operator] = max((took[target] + tail[target] for target in after[operator]), default=0.0)
    return np.array(head), np.array(tail)


@per_graph
def _with_mirrors(graph: OpGraph) -> tuple[list[list[int]], tuple[int, ...]]:
    """Successors, mirrors after their forward operator among them, and a topological order of that."""
    after = [list(targets) for targets in graph.successors]
    for operator, spec in enumerate(graph.operators):
        if spec.forward_of is not None:
            after[spec.forward_of].append(operator)
    return after, topological_order(after)
