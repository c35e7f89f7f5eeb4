"""From what a person keeps together (operators, modules, whole layers) to co-location groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

from explorer.question.names import Names
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph, Phase

Key = str | tuple[int]
"""A co-location group that is there, or one operator (with what follows it) by its position."""


class Unit(StrEnum):
    """What no device holds a part of. LAYERS: the numbered members of a module list (``model.layers.3``), the outermost
    where lists are nested. MODULES: the modules in a layer (``model.layers.3.mlp``), and those outside of layers that
    are in the model itself."""

    MODULES = "modules"
    LAYERS = "layers"


def in_units(graph: OpGraph, unit: Unit, reference: str) -> OpGraph:
    """The graph with every layer, or module, on one device. Operators that are in none stay as they are.

    unit: which of them.
    reference: the model, for the message.
    Raises InvalidProblem if no layer, or module, has two operators to keep together.
    """
    members: dict[str, list[int]] = {}
    for i, operator in enumerate(graph.operators):
        path = _unit_of(operator.module_path, unit)
        if path and operator.phase is Phase.FORWARD and not operator.replicable:
            members.setdefault(path, []).append(i)
    parts: list[set[Key]] = []
    for operators in members.values():
        part = {_key(graph, i) for i in operators}
        if len(part) > 1:
            parts = _with_part(parts, part)
    if not parts:
        raise InvalidProblem(
            f"--whole {unit.value}: {reference} has no {unit.value} of several operators; leave it out, or keep"
            " operators together by name (--together)"
        )
    return _labelled(graph, parts)


def _unit_of(path: str, unit: Unit) -> str:
    """The layer, or module, of an operator in the module at ``path``; "" for none."""
    parts = path.split(".") if path else []
    number = next((at for at, part in enumerate(parts) if part.isdecimal()), None)
    if unit is Unit.LAYERS:
        return "" if number is None else ".".join(parts[: number + 1])
    depth = 1 if number is None else number + 2
    return ".".join(parts[:depth]) if len(parts) >= depth else ""


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
        members = [i for name in group for i in known.operators(name, f"together {','.join(group)}")]
        parts = _with_part(parts, {_key(graph, i) for i in members})
    return _labelled(graph, parts)


def _with_part(parts: list[set[Key]], part: set[Key]) -> list[set[Key]]:
    """The parts with one more; those that it shares a key with become one with it."""
    joined = part.union(*(other for other in parts if other & part))
    return [*(other for other in parts if not other & part), joined]


def _labelled(graph: OpGraph, parts: list[set[Key]]) -> OpGraph:
    """The graph with every part a co-location group."""
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
