"""A graph as operators that all others come before or after, and what lies between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.latency.path_cut_kernel import Order
from solvers.problem.graph import OpGraph

Branch = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """gates: operators that every other one comes before or after, in their order. parts: [gates + 1], the operators
    before the first gate, between every two, and after the last, as branches: connected pieces in topological
    order, between which nothing is sent."""

    gates: tuple[int, ...]
    parts: tuple[tuple[Branch, ...], ...]


def series_of(graph: OpGraph, order: Order) -> Series:
    """The series of a graph; without gates, one part."""
    count = len(graph)
    compared = (order.above | order.below).sum(axis=1)
    gates = np.flatnonzero(compared == count - 1)
    gates = gates[np.argsort(order.above[gates].sum(axis=1), kind="stable")]
    part = order.above[:, gates].sum(axis=1)  # how many gates come before
    is_gate = np.isin(np.arange(count), gates)
    inside: list[list[int]] = [[] for _ in range(len(gates) + 1)]
    for v in graph.topological_order:
        if not is_gate[v]:
            inside[part[v]].append(v)
    return Series(tuple(gates.tolist()), tuple(_branches(graph, operators) for operators in inside))


def _branches(graph: OpGraph, operators: list[int]) -> tuple[Branch, ...]:
    """Connected pieces, each in the given order."""
    left = set(operators)
    found: list[Branch] = []
    for first in operators:
        if first not in left:
            continue
        left.discard(first)
        branch, todo = {first}, [first]
        while todo:
            v = todo.pop()
            for other in (*graph.predecessors[v], *graph.successors[v]):
                if other in left:
                    left.discard(other)
                    branch.add(other)
                    todo.append(other)
        found.append(tuple(v for v in operators if v in branch))
    return tuple(found)
