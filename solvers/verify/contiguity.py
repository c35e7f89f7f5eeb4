"""The two meanings of "contiguous", asked of a plan."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from solvers.plan.plan import Plan
from solvers.problem.graph import Operator, OpGraph, Phase, per_graph
from solvers.problem.problem import Contiguity, Pipeline, Problem

Node = TypeVar("Node", bound=Hashable)


def contiguity(problem: Problem, plan: Plan) -> list[str]:
    """How the plan breaks the contiguity asked for, at most one sentence."""
    if problem.contiguity is Contiguity.NONE or problem.is_latency:
        return []
    operators = problem.graph.operators
    by_stage = problem.pipeline is Pipeline.INTERLEAVED  # then it is asked of every stage by itself
    place = {
        operator: (number,) if by_stage else stage.devices
        for number, stage in enumerate(plan.stages)
        for operator in stage.operators
        if not operators[operator].replicable
    }
    edges = [(a, b) for a, b in _edges(problem.graph) if a in place and b in place]
    if problem.contiguity is Contiguity.ACYCLIC:
        sources = _ahead((place[b], place[a]) for a, b in edges if place[a] != place[b])
        try:
            TopologicalSorter(sources).prepare()
        except CycleError as error:
            circle = " -> ".join(str(list(devices)) for devices in error.args[1][:-1])
        else:
            return []
        return [f"the {'stages' if by_stage else 'devices'}' sets of operators are not acyclic: tensors flow {circle}"]
    readers = _ahead(_edges(problem.graph))
    for group in dict.fromkeys(place.values()):
        inside = {operator for operator, where in place.items() if where == group}
        left = {b for a in inside for b in readers.get(a, ())} - inside
        reached = set(left)
        while left:
            left = {b for a in left for b in readers.get(a, ())} - reached
            reached |= left
        if back := sorted(reached & inside):
            return [f"the operators of {list(group)} are not convex: a path returns at {operators[back[0]].name!r}"]
    return []


@per_graph
def _edges(graph: OpGraph) -> tuple[tuple[int, int], ...]:
    """The edges that contiguity is about: those of the forward graph; a backward operator for which nothing
    stands there has an artificial one, whose edges run the other way (Tarnawski et al. 2020, appendix)."""
    operators = graph.operators
    groups = {operator.colocation for operator in operators if operator.phase is Phase.FORWARD}
    edges = []
    for tensor in graph.tensors:
        maker = operators[tensor.producer]
        for reader in tensor.consumers:
            if maker.phase is Phase.FORWARD:
                if operators[reader].phase is Phase.FORWARD:
                    edges.append((tensor.producer, reader))
            elif operators[reader].phase is not Phase.FORWARD and any(
                _without_forward(operator, groups) for operator in (maker, operators[reader])
            ):
                edges.append((reader, tensor.producer))
    return tuple(edges)


def _without_forward(operator: Operator, groups: set[str | None]) -> bool:
    """Whether nothing in the forward graph stands for an operator."""
    return operator.forward_of is None and (operator.colocation is None or operator.colocation not in groups)


def _ahead(edges: Iterable[tuple[Node, Node]]) -> dict[Node, set[Node]]:
    """Where the edges of each node lead."""
    ahead: dict[Node, set[Node]] = {}
    for a, b in edges:
        ahead.setdefault(a, set()).add(b)
    return ahead
