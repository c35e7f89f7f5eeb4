"""What launchers of inference place: a row of whole layers, with what comes before in the first stage and what comes
after in the last."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.exports.layers.units import units_of
from solvers.errors import InvalidProblem
from solvers.problem.graph import OpGraph


def layer_of(graph: OpGraph) -> tuple[int | None, ...]:
    """[operators] the layer of each, counted from 0; None for what stands beside them. Raises InvalidProblem for a
    model without a list of layers."""
    model = units_of(graph)
    if not model.layers:
        raise InvalidProblem(
            f"{graph.name}: has no list of layers (nn.ModuleList), which stages of inference are made of"
        )
    layers: list[int | None] = [None] * len(graph)
    for number, unit in enumerate(model.layers):
        for operator in model.units[unit].operators:
            layers[operator] = number
    return tuple(layers)


def outer_groups(graph: OpGraph) -> tuple[tuple[str, ...], ...]:
    """Names of the operators before all layers, and of those after some: each group is to stay together. Operators that
    may be copied into every stage (tables of angles) are in neither."""
    layers = layer_of(graph)
    after = [layer is not None for layer in layers]
    for position in graph.topological_order:
        after[position] = after[position] or any(after[before] for before in graph.predecessors[position])
    groups: tuple[list[str], list[str]] = ([], [])
    for i, operator in enumerate(graph.operators):
        if layers[i] is None and not operator.replicable:
            groups[after[i]].append(operator.name)
    return tuple(tuple(group) for group in groups if len(group) > 1)


def partition(graph: OpGraph, stages: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Per stage how many layers it has, by operators of each stage."""
    layers = [None if graph.operators[o].replicable else layer for o, layer in enumerate(layer_of(graph))]
    return tuple(len({layers[o] for o in operators} - {None}) for operators in stages)
