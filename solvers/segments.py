"""Cut a placement into stages whose contraction is acyclic, so that any placement can run.

One mechanism for chains, DAGs of stages and non-contiguous placements; the simulator, the Gantt
chart and the runner share it.
"""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx

from solvers.contiguity import forward_edges
from solvers.errors import InvalidPlan
from solvers.graph import OpGraph, Phase, per_graph, topological_order

Place = tuple[int, ...]


@per_graph
def home_operators(graph: OpGraph) -> tuple[int, ...]:
    """For each operator the one that decides its stage: its forward operator, else a forward
    operator of its co-location group, else the first of the group, else itself."""
    home = list(range(len(graph)))
    first: dict[str, int] = {}
    for position, operator in enumerate(graph.operators):
        group = operator.colocation
        if group is None:
            continue
        known = first.get(group)
        if known is None or (operator.phase is Phase.FORWARD and graph.operators[known].phase is not Phase.FORWARD):
            first[group] = position
    for position, operator in enumerate(graph.operators):
        if operator.forward_of is not None:
            home[position] = operator.forward_of
        elif operator.phase is not Phase.FORWARD and operator.colocation is not None:
            home[position] = first[operator.colocation]
    return tuple(home)


def stages_of_placement(graph: OpGraph, placement: Sequence[Place]) -> list[tuple[tuple[int, ...], Place]]:
    """Sets of operators that run as a unit, with their devices, in topological order.

    placement: the devices of every operator. Places whose quotient is acyclic become one stage
    each; the others are cut greedily by longest-path level (a level ends where a tensor changes
    place). Operators inside a stage are in topological order. Deterministic.
    """
    if len(placement) != len(graph):
        raise InvalidPlan(f"a placement needs {len(graph)} entries, found {len(placement)}")
    home = home_operators(graph)
    edges = [(home[u], home[v]) for u, v in forward_edges(graph) if home[u] != home[v]]
    places = sorted(set(placement))
    number = {place: i for i, place in enumerate(places)}
    quotient = nx.DiGraph()
    quotient.add_nodes_from(range(len(places)))
    quotient.add_edges_from(
        (number[placement[u]], number[placement[v]]) for u, v in edges if placement[u] != placement[v]
    )
    tangled = {p for component in nx.strongly_connected_components(quotient) if len(component) > 1 for p in component}
    level = _levels(graph, edges, placement, {places[p] for p in tangled}) if tangled else [0] * len(graph)
    key_of = [(number[placement[h]], level[h]) for h in home]
    position = {operator: i for i, operator in enumerate(graph.topological_order)}
    members: dict[tuple[int, int], list[int]] = {}
    for operator in graph.topological_order:
        members.setdefault(key_of[operator], []).append(operator)
    keys = sorted(members, key=lambda key: position[members[key][0]])
    rank = {key: i for i, key in enumerate(keys)}
    after: list[set[int]] = [set() for _ in keys]
    for u, v in edges:
        if key_of[u] != key_of[v]:
            after[rank[key_of[u]]].add(rank[key_of[v]])
    order = topological_order([sorted(targets) for targets in after])
    if len(order) < len(keys):
        raise InvalidPlan(
            "the placement cannot be cut into stages: co-located operators depend on each other cyclically"
        )
    return [(tuple(members[keys[i]]), places[keys[i][0]]) for i in order]


def _levels(
    graph: OpGraph, edges: Sequence[tuple[int, int]], placement: Sequence[Place], tangled: set[Place]
) -> list[int]:
    """Longest-path level, counting edges that change place; 0 for operators of untangled places."""
    after: list[set[int]] = [set() for _ in range(len(graph))]
    for u, v in edges:
        after[u].add(v)
    level = [0] * len(graph)
    for u in topological_order([sorted(targets) for targets in after]):
        for v in after[u]:
            level[v] = max(level[v], level[u] + (placement[u] != placement[v]))
    return [depth if placement[o] in tangled else 0 for o, depth in enumerate(level)]
