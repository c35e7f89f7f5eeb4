"""How a plan divides the parameters of each module, in the words of launchers that take a style for each: by output
columns, by input rows, by tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from explorer.exports.layers.written import path_of
from explorer.words import text
from solvers.errors import UnsupportedProblem
from solvers.problem.collectives import COLLECTIVE, PARTIAL, DividedCall, Division
from solvers.problem.graph import OpGraph

COLUMNS, ROWS, TOKENS = "columns", "rows", "tokens"
LINEAR, EMBEDDING = "linear", "embedding"
_SHARD = re.compile(r"S\((\d+)\)")
_KINDS = {"aten.linear": LINEAR, "aten.embedding": EMBEDDING}
_NORMS = ("aten.layer_norm", "aten.rms_norm")
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Style:
    """kind: LINEAR, EMBEDDING or "norm". by: COLUMNS or ROWS of its matrix, or TOKENS of a norm's input. takes, gives:
    the dimension along which its input is divided before it, and its output after it, as others see them; None where
    they are whole."""

    kind: str
    by: str
    takes: int | None = None
    gives: int | None = None


@dataclass(frozen=True, slots=True)
class Styles:
    """of: by module. lost: what has no style, a sentence each. divided_loss: whether the loss works on classes that are
    divided; head: the module that makes their scores."""

    of: Mapping[str, Style]
    lost: tuple[str, ...]
    head: str = ""

    @property
    def divided_loss(self) -> bool:
        return bool(self.head)


def styles_of(graph: OpGraph, launcher: str) -> Styles:
    """Of a divided graph. Raises UnsupportedProblem for one whose tensors are whole, or that does not state how they
    lie."""
    division = graph.division
    if graph.tensor_parallel == 1 or division is None:
        why = "its tensors are whole" if graph.tensor_parallel == 1 else "its file does not state how its tensors lie"
        raise UnsupportedProblem(
            f"{launcher} says how each module is divided, and of this plan {why}; plan with --tensor-parallel"
        )
    readers = _readers(division)
    made_by = {number: call for call in division.calls for number in call.outputs}
    styles: dict[str, Style] = {}
    other: dict[str, list[str]] = {}
    for call in division.calls:
        if call.operator is None or call.target.startswith(COLLECTIVE):
            continue
        module = graph.operators[call.operator].module_path
        style = _style(division, call, made_by, readers)
        if style is not None and module:
            if styles.setdefault(path_of(module), style) != style:
                raise UnsupportedProblem(f"{module} is called several times, and divided otherwise each time")
        elif _divides_parameters(division, call):
            other.setdefault(call.target, []).append(module or "the model")
    lost = [
        f"how {target} is divided, of {text.listing(list(dict.fromkeys(modules)), SHOWN)}: no style says that"
        for target, modules in sorted(other.items())
    ]
    losses = [call for call in division.calls if call.target.startswith("aten.cross_entropy")]
    head = ""
    for call in losses:
        if _dimension(division, call.inputs[0]) is not None:
            head = _maker(graph, made_by, call.inputs[0])
    return Styles(styles, tuple(lost), head)


def _readers(division: Division) -> dict[int, list[DividedCall]]:
    readers: dict[int, list[DividedCall]] = {}
    for call in division.calls:
        for number in call.inputs:
            readers.setdefault(number, []).append(call)
    return readers


def _dimension(division: Division, number: int) -> int | None:
    match = _SHARD.fullmatch(division.tensors[number].placement)
    return None if match is None else int(match[1])


def _divides_parameters(division: Division, call: DividedCall) -> bool:
    tensors = [division.tensors[number] for number in call.inputs]
    return any(tensor.parameter and tensor.placement.startswith("S(") for tensor in tensors)


def _style(
    division: Division, call: DividedCall, made_by: Mapping[int, DividedCall], readers: Mapping[int, list[DividedCall]]
) -> Style | None:
    """None for a call whose parameters are whole, or of which no style says how it is divided."""
    if call.target in _NORMS:
        takes = _dimension(division, call.inputs[0])
        rank = len(division.tensors[call.inputs[0]].shape)
        whole = not _divides_parameters(division, call)
        return Style("norm", TOKENS, takes, takes) if takes is not None and takes < rank - 1 and whole else None
    if call.target not in _KINDS or "weight" not in call.arguments:
        return None
    weight = call.inputs[call.arguments.index("weight")]
    dimension, kind = _dimension(division, weight), _KINDS[call.target]
    if dimension is None or not division.tensors[weight].parameter:
        return None
    by = (COLUMNS if dimension == 0 else ROWS) if kind == LINEAR else (ROWS if dimension == 0 else COLUMNS)
    given = next(number for name, number in zip(call.arguments, call.inputs, strict=True) if name != "weight")
    gathered = made_by.get(given)
    takes = _dimension(division, given)
    if gathered is not None and gathered.target.startswith(COLLECTIVE) and by == COLUMNS:
        takes = _dimension(division, gathered.inputs[0])
    output = call.outputs[0]
    gives = _dimension(division, output)
    after = [one for one in readers.get(output, ()) if one.target.startswith(COLLECTIVE)]
    if division.tensors[output].placement == PARTIAL or (after and len(after) == len(readers[output])):
        gives = _dimension(division, after[0].outputs[0]) if after else None
    return Style(kind, by, takes, gives)


def _maker(graph: OpGraph, made_by: Mapping[int, DividedCall], number: int) -> str:
    """The module of the product from which a tensor is a view."""
    while (call := made_by.get(number)) is not None:
        if call.target in _KINDS and call.operator is not None:
            return graph.operators[call.operator].module_path
        number = call.inputs[0]
    return ""
