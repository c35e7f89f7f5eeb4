"""Copies of tied parameters: every operator that reads one holds it, in place of sharing a device with the others.

For inference: in training the gradients of copies would have to be added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph, Phase, per_graph
from solvers.problem.problem import Plain, Problem

SEVERAL_NAMES = " = "
"""In the name of a co-location group of operators that read one parameter under several names: "wte.weight =
lm_head.weight", as tracers write it."""


@per_graph
def tied(graph: OpGraph) -> dict[str, tuple[int, ...]]:
    """Tied parameter -> the forward operators that share a device for it, as they come."""
    readers_of: dict[str, list[int]] = {}
    for position in graph.topological_order:
        operator = graph.operators[position]
        if operator.phase is Phase.FORWARD and SEVERAL_NAMES in (operator.colocation or ""):
            readers_of.setdefault(str(operator.colocation), []).append(position)
    return {name: tuple(readers) for name, readers in readers_of.items() if len(readers) > 1}


def copied_bytes(graph: OpGraph) -> dict[int, float]:
    """Reader of a tied parameter, but the first -> bytes that a copy for it adds: of all that the readers before it
    own, which is never less than what it reads of them."""
    copied = {}
    for readers in tied(graph).values():
        before = 0.0
        for position in readers:
            copied[position] = before
            before += graph.operators[position].param_bytes
        del copied[readers[0]]
    return copied


def with_copies(graph: OpGraph) -> OpGraph:
    """The graph with a copy of each tied parameter at every reader, wherever that is; itself if nothing is tied."""
    more, names = copied_bytes(graph), tied(graph)
    if not names:
        return graph
    operators = tuple(
        replace(
            o, colocation=None if o.colocation in names else o.colocation, param_bytes=o.param_bytes + more.get(i, 0.0)
        )
        for i, o in enumerate(graph.operators)
    )
    return replace(graph, operators=operators)


def copying(problem: Problem) -> Problem:
    """The problem with copies of tied parameters.

    Raises InvalidProblem where gradients of copies would have to be added up, where sizes are stated, and where nothing
    is tied.
    """
    if problem.has_backward():
        raise InvalidProblem(
            "copies of tied parameters are for inference: in training their gradients would have to be added up between"
            " devices, which no plan counts; leave out --copy-tied, or trace for inference"
        )
    if problem.stated_bytes is not None:
        raise InvalidProblem("sizes are stated as a whole, so what copies would hold is unknown; leave out --copy-tied")
    if not tied(problem.graph):
        raise InvalidProblem("the model has no tied parameters, so there is nothing to copy; leave out --copy-tied")
    plain = Plain(problem.graph, problem.compute)
    return replace(problem, graph=with_copies(problem.graph), plain=plain, copy_tied=True)


@dataclass(frozen=True, slots=True)
class Copies:
    """A tied parameter, the devices of its readers in their order, and bytes held beside the first copy."""

    parameter: str
    devices: tuple[int, ...]
    more_bytes: float


def copies_of(problem: Problem, where: Mapping[int, tuple[int, ...]]) -> tuple[Copies, ...]:
    """Who holds copies of tied parameters; empty if the problem has none. where: operator -> devices (of a plan)."""
    if not problem.copy_tied:
        return ()
    graph = problem.as_traced.graph
    more = copied_bytes(graph)
    return tuple(
        Copies(
            name,
            tuple(dict.fromkeys(device for o in readers for device in where[o])),
            sum(more.get(o, 0.0) * len(where[o]) for o in readers),
        )
        for name, readers in tied(graph).items()
    )
