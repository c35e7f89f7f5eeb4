"""Cut a placement into stages whose contraction is acyclic, so that any placement can run.

One mechanism for chains, DAGs of stages and non-contiguous placements; the simulator, the Gantt
chart and the runner share it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.errors import InvalidPlan
from solvers.plan.contiguity import forward_edges
from solvers.plan.successors import components
from solvers.problem.graph import OpGraph, Phase, labels_after, per_graph, topological_order

Place = tuple[int, ...]


Edges = tuple[tuple[int, int], ...]


@per_graph
def _edges(graph: OpGraph) -> tuple[Edges, Edges]:
    """The edges that stages must respect, forward ones and those of later phases mirrored, each between
    operators that have no forward operator: the others go where that goes."""
    operators = graph.operators
    home = [i if o.forward_of is None else o.forward_of for i, o in enumerate(operators)]
    forward = {(home[u], home[v]) for u, v in forward_edges(graph) if home[u] != home[v]}
    mirrored = {
        (home[reader], home[tensor.producer])
        for tensor in graph.tensors
        if operators[tensor.producer].phase is not Phase.FORWARD
        for reader in tensor.consumers
        if home[reader] != home[tensor.producer]
    }
    return tuple(sorted(forward)), tuple(sorted(mirrored))


def stages_of_placement(graph: OpGraph, placement: Sequence[Place]) -> list[tuple[tuple[int, ...], Place]]:
    """Sets of operators that run as a unit, with their devices, in topological order.

    placement: the devices of every operator. Places whose quotients, of forward and of backward
    tensors, are acyclic become one stage each; the others are cut greedily by longest-path level (a
    level ends where a tensor changes place). Operators inside a stage are in topological order.
    Deterministic. Raises InvalidPlan if the placement has another length than the graph, or cannot be cut.
    """
    if len(placement) != len(graph):
        raise InvalidPlan(f"a placement needs {len(graph)} entries, found {len(placement)}")
    forward, mirrored = _edges(graph)
    places = sorted(set(placement))
    number = {place: i for i, place in enumerate(places)}
    place = [number[devices] for devices in placement]
    tangled = _tangled(forward, place) | _tangled(mirrored, place)
    level = _levels(graph, place, tangled) if tangled else [0] * len(graph)
    members: dict[tuple[int, int], list[int]] = {}
    for operator in graph.topological_order:
        home = graph.operators[operator].forward_of
        members.setdefault((place[operator], level[operator if home is None else home]), []).append(operator)
    keys = list(members)
    rank = {operator: i for i, key in enumerate(keys) for operator in members[key]}
    order = topological_order([sorted(targets) for targets in labels_after(forward, rank, len(keys))])
    if len(order) < len(keys):
        raise InvalidPlan(
            "the placement cannot be cut into stages: backward operators without a forward operator make a cycle"
            " with forward ones; give them the co-location group of their forward operator"
        )
    return [(tuple(members[keys[i]]), places[keys[i][0]]) for i in order]


def _tangled(edges: Edges, place: Sequence[int]) -> set[int]:
    """Places on a cycle of the quotient."""
    number = components(max(place) + 1, {(place[u], place[v]) for u, v in edges})
    return set(np.flatnonzero(np.bincount(number)[number] > 1).tolist())


def _levels(graph: OpGraph, place: Sequence[int], tangled: set[int]) -> list[int]:
    """Longest-path level, counting edges that change place; 0 for operators of untangled places.

    Where the backward does not mirror the forward, so that they make a cycle, only forward edges count.
    """
    forward, mirrored = _edges(graph)
    for edges in (forward + mirrored, forward):
        after: list[list[int]] = [[] for _ in range(len(graph))]
        for u, v in edges:
            after[u].append(v)
        order = topological_order(after)
        if len(order) == len(graph):
            break
    level = [0] * len(graph)
    for u in order:
        for v in after[u]:
            level[v] = max(level[v], level[u] + (place[u] != place[v]))
    return [depth if p in tangled else 0 for depth, p in zip(level, place, strict=True)]
