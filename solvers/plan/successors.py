"""What comes after what: operators with their mirrors, and strongly connected components of any graph."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from solvers.kernels.arrays import Ints
from solvers.problem.graph import OpGraph, labels_after, per_graph, topological_order


@per_graph
def with_mirrors(graph: OpGraph) -> tuple[list[list[int]], tuple[int, ...]]:
    """Successors, mirrors after their forward operator among them, and a topological order of that."""
    after = [list(targets) for targets in graph.successors]
    for operator, spec in enumerate(graph.operators):
        if spec.forward_of is not None:
            after[spec.forward_of].append(operator)
    return after, topological_order(after)


def components(count: int, edges: Iterable[tuple[int, int]]) -> Ints:
    """The number of every node's component, [count]; no edge leads to a component of a lower number."""
    after = labels_after(edges, range(count), count)
    number = np.empty(count, np.int64)
    order = topological_order([sorted(targets) for targets in after])
    if len(order) == count:
        number[list(order)] = np.arange(count)
        return number
    import networkx  # rarely needed, and slow to import

    graph: networkx.DiGraph[int] = networkx.DiGraph()  # DiGraph(edges) imports pandas to see whether they are a table
    graph.add_edges_from((u, v) for u in range(count) for v in (u, *after[u]))
    merged = networkx.condensation(graph)
    for rank, component in enumerate(networkx.topological_sort(merged)):
        number[list(merged.nodes[component]["members"])] = rank
    return number
