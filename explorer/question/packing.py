"""A problem, and the answer to it, from one process of this program to another. The graph goes along as bytes that are
made once, and the answer leaves out the problem that the other side has.

Only for what this program packed itself: it is unpacked as Python's own values.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

from solvers.plan.result import Result
from solvers.problem.graph import OpGraph, per_graph
from solvers.problem.problem import Problem

MOST_GRAPHS = 8
"""Graphs that a process keeps unpacked, so that equal ones are one."""
GRAPH, PROBLEM = "graph", "problem"

_graphs: OrderedDict[str, OpGraph] = OrderedDict()


@dataclass(frozen=True, slots=True)
class PackedGraph:
    """key: a hash of the content."""

    key: str
    content: bytes


@dataclass(frozen=True, slots=True)
class PackedProblem:
    """content: the problem without its graph."""

    graph: PackedGraph
    content: bytes


@dataclass(frozen=True, slots=True)
class PackedPlan:
    """A result with its problem. reference: of the model."""

    problem: PackedProblem
    result: bytes
    reference: str


def packed_plan(result: Result, reference: str) -> PackedPlan:
    problem = result.problem
    return PackedPlan(packed_problem(problem, _packed_once(problem.graph)), packed_result(result), reference)


def unpacked_plan(packed: PackedPlan) -> tuple[Result, str]:
    """The result and the reference of its model."""
    return unpacked_result(packed.result, unpacked_problem(packed.problem)), packed.reference


def packed_graph(graph: OpGraph) -> PackedGraph:
    """To be made once for a graph that is asked about again and again."""
    parts = (
        graph.operators,
        graph.tensors,
        graph.samples,
        graph.name,
        graph.tensor_parallel,
        graph.division,
        graph.outer_degree,
    )
    content = pickle.dumps(parts, pickle.HIGHEST_PROTOCOL)
    return PackedGraph(hashlib.sha256(content).hexdigest(), content)


@per_graph
def _packed_once(graph: OpGraph) -> PackedGraph:
    return packed_graph(graph)


def packed_problem(problem: Problem, graph: PackedGraph) -> PackedProblem:
    """graph: of this problem."""
    return PackedProblem(graph, _dumped(problem, {id(problem.graph): GRAPH}))


def unpacked_problem(packed: PackedProblem) -> Problem:
    """Equal graphs are unpacked once: what is known of one problem holds for the next."""
    key = packed.graph.key
    if key not in _graphs:
        parts = pickle.loads(packed.graph.content)
        _graphs[key] = OpGraph(*parts)
        while len(_graphs) > MOST_GRAPHS:
            _graphs.popitem(last=False)
    _graphs.move_to_end(key)
    problem: Problem = _loaded(packed.content, {GRAPH: _graphs[key]})
    return problem


def packed_result(result: Result) -> bytes:
    """Without its problem."""
    return _dumped(result, {id(result.problem): PROBLEM, id(result.problem.graph): GRAPH})


def unpacked_result(content: bytes, problem: Problem) -> Result:
    """problem: the one that was asked."""
    result: Result = _loaded(content, {PROBLEM: problem, GRAPH: problem.graph})
    return result if result.problem is problem else replace(result, problem=problem)


def _dumped(value: object, known: dict[int, str]) -> bytes:
    class Pickler(pickle.Pickler):
        def persistent_id(self, one: object) -> str | None:
            return known.get(id(one))

    made = io.BytesIO()
    Pickler(made, pickle.HIGHEST_PROTOCOL).dump(value)
    return made.getvalue()


def _loaded(content: bytes, known: dict[str, object]) -> Any:
    class Unpickler(pickle.Unpickler):
        def persistent_load(self, name: str) -> object:
            return known[name]

    return Unpickler(io.BytesIO(content)).load()
