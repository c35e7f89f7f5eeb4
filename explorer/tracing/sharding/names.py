"""How people read what a value is to the members of a group: "S(heads)", "R", "P", with DTensor's letters."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.tracing.sharding.choices import PARTIAL, Choices, State
from explorer.tracing.sharding.dimensions import Leaves
from explorer.tracing.sharding.loops import Where
from solvers.problem.collectives import ATTENTION

REPLICATE, PARTIAL_SUM = "R", "P"


def leaf_names(choices: Choices) -> Mapping[int, str]:
    """What leaves are called: by the calls and parameters that have them, the surest first; others have no name."""
    captured, known = choices.captured, choices.known
    names: dict[int, str] = {}

    def name(word: str, dimension: Leaves) -> None:
        for leaf in known.dimensions.leaves(dimension):
            if leaf not in choices.barred:
                names.setdefault(leaf, word)

    for leaf in choices.samples:
        names.setdefault(leaf, "samples")
    for node in captured.nodes:
        if node.target.startswith(ATTENTION):
            for _, value in node.tensors[:2]:
                name("heads", known.of[value][-3])
                name("tokens", known.of[value][-2])
    for value in captured.inputs:
        if not captured.values[value].is_float:
            for dimension in known.of[value]:
                name("tokens", dimension)
    words = any(node.target == "aten.embedding" for node in captured.nodes)
    for node in captured.nodes:
        if node.target.startswith("aten.cross_entropy"):
            name("vocabulary" if words else "classes", known.of[node.tensors[0][1]][-1])
        elif node.target == "aten.embedding":
            rows, columns = known.of[node.tensors[0][1]]
            name("vocabulary", rows)
            name("width", columns)
        elif "norm" in node.target and (weight := node.tensor("weight")) is not None:
            name("channels" if "batch" in node.target or "group" in node.target else "width", known.of[weight][-1])
    for value in captured.parameters:
        dimensions = known.of[value]
        called = {2: ("columns", "rows"), 3: ("experts", "columns", "columns"), 4: ("channels", "channels")}
        for word, dimension in zip(called.get(len(dimensions), ()), dimensions, strict=False):
            name(word, dimension)
    return names


def placement_words(names: Mapping[int, str], state: State, place: Where) -> str:
    """What a value in a state is to the members of a group. place: the dimension in which it is divided."""
    if state >= 0:
        return f"S({names.get(state, place)})"
    return PARTIAL_SUM if state == PARTIAL else REPLICATE
