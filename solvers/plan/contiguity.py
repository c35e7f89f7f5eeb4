"""The two meanings of "contiguous", checked on a plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from solvers.errors import InvalidPlan
from solvers.plan.plan import Plan
from solvers.problem.graph import OpGraph, Phase, find_cycle, labels_after, per_graph
from solvers.problem.problem import Contiguity, Problem


@per_graph
def forward_edges(graph: OpGraph) -> tuple[tuple[int, int], ...]:
    """The edges contiguity is about: forward ones, and backward ones mirrored where an end has no
    forward operator in its co-location group (Tarnawski et al. 2020, appendix: artificial
    forward operators)."""
    operators = graph.operators
    with_forward = {o.colocation for o in operators if o.phase is Phase.FORWARD and o.colocation is not None}

    def orphan(position: int) -> bool:
        operator = operators[position]
        return operator.forward_of is None and operator.colocation not in with_forward

    edges = []
    for tensor in graph.tensors:
        source = tensor.producer
        forward = operators[source].phase is Phase.FORWARD
        for target in tensor.consumers:
            if forward:
                if operators[target].phase is Phase.FORWARD:
                    edges.append((source, target))
            elif orphan(source) or orphan(target):
                edges.append((target, source))
    return tuple(edges)


def cycle_of_places(graph: OpGraph, placement: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Places on a cycle of the quotient, the first repeated at the end; empty if the quotient is acyclic."""
    numbers: dict[tuple[int, ...], int] = {}
    place = [numbers.setdefault(devices, len(numbers)) for devices in placement]
    places = list(numbers)
    return [places[p] for p in _cycle_of_labels(forward_edges(graph), place, len(places))]


def _cycle_of_labels(edges: Iterable[tuple[int, int]], label: Sequence[int], count: int) -> list[int]:
    """A cycle of the quotient of a graph by labels, as `find_cycle` has it."""
    return find_cycle([sorted(targets) for targets in labels_after(edges, label, count)])


def broken_contiguity(problem: Problem, plan: Plan) -> str:
    """How the plan breaks the contiguity asked for, as a sentence; "" if it does not.

    ACYCLIC: the quotient of the forward graph by places must be acyclic. CONVEX: no forward path
    may leave a place and come back. Where a device may run several stages (`Problem.by_stage`) that is asked of
    stages in place of devices. In a single pass of calls every stage is convex by itself (the
    stages are acyclic), and nothing is asked of a device that runs several.
    """
    if problem.contiguity is Contiguity.NONE or problem.is_latency:
        return ""
    place: list[int] = [-1] * len(problem.graph)
    numbers: dict[tuple[int, ...], int] = {}
    repeated: set[int] = set()
    by_stage = problem.by_stage
    for index, stage in enumerate(plan.stages):
        number = numbers.setdefault((index,) if by_stage else stage.devices, len(numbers))
        for operator in stage.operators:
            if place[operator] >= 0 and place[operator] != number:
                repeated.add(operator)
            place[operator] = number
    if -1 in place:
        name = problem.graph.operators[place.index(-1)].name
        raise InvalidPlan(f"operator {name!r} is in no stage")
    devices = list(numbers)
    edges = [(u, v) for u, v in forward_edges(problem.graph) if u not in repeated and v not in repeated]
    if problem.contiguity is Contiguity.ACYCLIC:
        if cycle := _cycle_of_labels(edges, place, len(devices)):
            names = " -> ".join(str(list(devices[p])) for p in cycle)
            what = "stages" if by_stage else "devices"
            return f"not contiguous: this would create a cycle of {what} {names}"
        return ""
    return _not_convex(problem.graph, edges, place, devices)


def _not_convex(graph: OpGraph, edges: list[tuple[int, int]], place: list[int], devices: list[tuple[int, ...]]) -> str:
    after: list[list[int]] = [[] for _ in range(len(graph))]
    for u, v in edges:
        after[u].append(v)
    for number, group in enumerate(devices):
        left: set[int] = set()
        todo = [v for u in range(len(graph)) if place[u] == number for v in after[u] if place[v] != number]
        while todo:
            node = todo.pop()
            if node in left:
                continue
            left.add(node)
            for v in after[node]:
                if place[v] == number:
                    return f"not convex: a path leaves {list(group)} and returns at {graph.operators[v].name!r}"
                todo.append(v)
    return ""
