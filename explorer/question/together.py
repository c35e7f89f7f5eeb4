"""From what a person keeps together (operators, modules) to co-location groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.question.names import Names
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph

Key = str | tuple[int]
"""A co-location group that is there, or one operator (with what follows it) by its position."""


def kept_together(graph: OpGraph, groups: Sequence[Sequence[str]]) -> OpGraph:
    """The graph with every one of ``groups`` on one device: names of operators, or of modules for all in them.

    Groups that share an operator, or a co-location group of the graph, become one. A forward operator brings its
    backward and update. Raises InvalidProblem for a name that is neither, or for a group of fewer than two names.
    """
    if not groups:
        return graph
    known = Names(graph)
    parts: list[set[Key]] = []
    for group in groups:
        if len(set(group)) < 2:
            raise InvalidProblem(f"together {','.join(group) or 'nothing'}: expected at least two names")
        found = [i for name in group for i in known.operators(name, f"together {','.join(group)}")]
        part = {_key(graph, i) for i in found}
        part.update(*(other for other in parts if other & part))
        parts = [*(other for other in parts if not other & part), part]
    label: dict[Key, str] = {}
    for part in parts:
        label |= dict.fromkeys(part, min(map(str, (_name(graph, key) for key in part))))
    return replace(
        graph,
        operators=tuple(
            replace(operator, colocation=label.get(_key(graph, i), operator.colocation))
            for i, operator in enumerate(graph.operators)
        ),
    )


def _key(graph: OpGraph, i: int) -> Key:
    operator = graph.operators[i]
    if operator.colocation is not None:
        return operator.colocation
    return (i if operator.forward_of is None else operator.forward_of,)


def _name(graph: OpGraph, key: Key) -> str:
    return key if isinstance(key, str) else graph.operators[key[0]].name


def parse_together(text: str) -> tuple[str, ...]:
    """ "encoder.0,decoder.0" -> its names. Raises InvalidProblem."""
    names = tuple(name.strip() for name in text.split(","))
    if len(set(names)) < 2 or "" in names:
        raise InvalidProblem(f"expected two names or more, OPERATOR,OPERATOR; found {text!r}")
    return names
