"""Which device of one plan is which of another: labels may be merely permuted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import networkx as nx

from solvers.plan.plan import Plan
from solvers.problem.cluster import Device

Devices = frozenset[int]


def matched_devices(
    plans: tuple[Plan, Plan], devices: tuple[Sequence[Device], Sequence[Device]]
) -> dict[int, int]:  # fmt: skip
    """Device of the first plan -> device of the second, such that most operators are on both (an assignment of
    maximum weight); of several such, one that keeps the most labels.

    A device without an operator in common with any that is left keeps its label, or has the first one that is free;
    it has no counterpart where none is. Devices of different kinds are matched only if one of the kinds is not there on
    the other side.
    """
    kinds = [{device.kind for device in side} for side in devices]
    first, second = devices

    def alike(i: int, j: int) -> bool:
        a, b = first[i].kind, second[j].kind
        return first[i].is_cpu == second[j].is_cpu and (a == b or a not in kinds[1] or b not in kinds[0])

    many = 2 * (len(first) + len(second)) + 1
    graph: nx.Graph[tuple[int, int]] = nx.Graph()
    for (i, j), count in sorted(_overlaps(*plans).items()):
        if alike(i, j):
            graph.add_edge((0, i), (1, j), weight=count * many + (i == j))
    found: dict[int, int] = {}
    for a, b in nx.max_weight_matching(graph):
        (_, i), (_, j) = sorted((a, b))
        found[i] = j
    for i in range(len(first)):  # those that have nothing in common with any that is left
        free = [j for j in range(len(second)) if j not in found.values() and alike(i, j)]
        if i not in found and free:
            found[i] = i if i in free else free[0]
    return dict(sorted(found.items()))


def renamed(match: Mapping[int, int]) -> dict[int, int]:
    """What of a matching changes its label."""
    return {i: j for i, j in match.items() if i != j}


def _overlaps(first: Plan, second: Plan) -> Counter[tuple[int, int]]:
    """Operators that a device of the first plan and one of the second both hold."""
    there = second.placement()
    return Counter(
        (i, j) for operator, devices in first.placement().items() for i in devices for j in there.get(operator, ())
    )
