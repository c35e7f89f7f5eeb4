"""Stages as launchers of transformers count them: so many layers of one list, what comes before them in the first
stage, what comes after them in the last."""

from __future__ import annotations

from explorer.exports.layers.units import Layout
from explorer.words import text
from solvers.errors import UnsupportedProblem

ATTENTION = ("attention", "softmax")
"""A transformer layer has an operator whose type has one of these in it."""


def counted_layers(layout: Layout, launcher: str) -> list[int]:
    """Per stage how many layers it has. Raises UnsupportedProblem, naming the module that stands elsewhere."""
    units, layers = layout.model.units, layout.model.layers
    if not layers:
        raise UnsupportedProblem(f"the model has no list of layers, and {launcher} counts layers")
    lists = list(dict.fromkeys(unit.listed for unit in units if unit.listed))
    if len(lists) > 1:
        raise UnsupportedProblem(f"the model has several lists of layers, {text.listing(lists)}; {launcher} has one")
    operators = layout.chain.graph.operators
    for i in layers:
        if not any(word in operators[o].op_type for o in units[i].operators for word in ATTENTION):
            raise UnsupportedProblem(f"{units[i].name} has no attention; a layer of {launcher} is a transformer's")
    last = len(layout.chain.plan.stages) - 1
    for i, unit in enumerate(units):
        if i in layers:
            continue
        if layers[0] < i < layers[-1]:
            raise UnsupportedProblem(
                f"{unit.name} runs between the layers of {units[layers[0]].listed}; {launcher} has one row of layers"
            )
        place, where = (0, "first") if i < layers[0] else (last, "last")
        if layout.of[i] != place:
            raise UnsupportedProblem(
                f"{unit.name} is in stage {layout.of[i]}, and {launcher} has what is not a layer of"
                f" {units[layers[0]].listed} in the first or the last stage (this belongs into the {where})"
            )
    return [sum(layout.of[i] == stage for i in layers) for stage in range(last + 1)]
