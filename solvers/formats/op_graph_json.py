"""The operator graph as a JSON value, and the hash that names it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from solvers.errors import InvalidProblem
from solvers.formats.cluster_json import MAX_OPERATORS
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json
from solvers.formats.records import reader_of, record_json
from solvers.problem.collectives import Axis, DividedCall, DividedTensor, Division, SavedForBackward
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor

MAX_TENSORS = 4_000_000
MAX_RANK = 64
MAX_AMOUNT = sys.float_info.max
MAX_DEGREE = 4096
"""Members of a tensor-parallel group."""

_AMOUNTS = ("flops", "moved_bytes", "saved_bytes", "workspace_bytes", "exchanged_bytes", "outer_bytes")
_OPERATOR = (
    "name", "op_type", "phase", "module_path", *_AMOUNTS, "param_bytes", "frozen_bytes", "factorable_bytes",
    "colocation", "forward_of", "replicable", "checkpoint", "cached", "buffer_bytes", "gradient_sum_bytes", "causal",
    "exchange_steps", "placement", "members", "outer_steps",
)  # fmt: skip
"""In the order in which they are written, and hashed."""
_UNNAMED = frozenset(
    {"factorable_bytes", "checkpoint", "cached", "buffer_bytes", "gradient_sum_bytes", "causal", "placement"}
)
"""What does not name a graph: see `graph_hash`."""
_ALWAYS = frozenset({"op_type", "phase"})
_DEFAULT = {kind: {each.name: each.default for each in fields(kind)} for kind in (Operator, Tensor)}
_ROOM_FOLLOWS = frozenset({Phase.BACKWARD_WEIGHT, Phase.UPDATE})
"""Phases whose workspace is that of `solvers.problem.gradient_room`, which differs from question to question."""


def graph_hash(graph: OpGraph) -> str:
    """sha256 of the graph's canonical JSON: equal graphs have equal hashes. Without `Operator.factorable_bytes`, which
    follow from the same parameters, buffers and causal masks, which follow from the same module, room for gradients and
    updates, regions, which are a way to run the same operators, who saves which tensor, and words for people: plans and
    profiles of files that do not state them are of the same graph."""
    return hashlib.sha256(dump_json(graph_json(graph, whole=False)).encode()).hexdigest()


def same_by_name(one: Operator, other: Operator) -> bool:
    """Whether two operators are the same in all that `graph_hash` knows of them."""
    return _operator_json(one, whole=False) == _operator_json(other, whole=False)


def graph_json(graph: OpGraph, *, whole: bool = True) -> dict[str, object]:
    """The graph as a JSON value; fields at their default are left out, and where not the whole is asked for, what
    does not name it (`graph_hash`)."""
    return {
        "name": graph.name,
        "samples": graph.samples,
        **({"tensor_parallel": graph.tensor_parallel} if graph.tensor_parallel > 1 else {}),
        **({"outer_degree": graph.outer_degree} if graph.outer_degree > 1 else {}),
        **({"division": _division_json(graph.division)} if whole and graph.division is not None else {}),
        "operators": [_operator_json(operator, whole) for operator in graph.operators],
        "tensors": [
            _written(tensor, tuple(_DEFAULT[Tensor]), frozenset() if whole else frozenset({"saver"}))
            for tensor in graph.tensors
        ],
    }


def read_op_graph(field: Field) -> OpGraph:
    """Raises InvalidProblem."""
    parts = field.fields(("name", "samples", "operators", "tensors"), ("tensor_parallel", "division", "outer_degree"))
    operators = tuple(_read_operator(item) for item in parts["operators"].items(MAX_OPERATORS))
    tensors = tuple(map(_tensor_reader(len(operators)), parts["tensors"].items(MAX_TENSORS)))
    samples, name = parts["samples"].integer(1), parts["name"].text()
    degree = parts["tensor_parallel"].integer(1, MAX_DEGREE) if "tensor_parallel" in parts else 1
    outer = parts["outer_degree"].integer(1, MAX_DEGREE) if "outer_degree" in parts else 1
    division = _read_division(parts["division"], len(operators)) if "division" in parts else None
    return field.located(lambda: OpGraph(operators, tensors, samples, name, degree, division, outer))


def _division_json(division: Division) -> dict[str, object]:
    return {
        "tensors": [_record_json(tensor) for tensor in division.tensors],
        "calls": [_record_json(call) for call in division.calls],
        "outputs": list(division.outputs),
        **({} if division.saved is None else {"saved": [_record_json(saved) for saved in division.saved]}),
        **({} if division.load == 1.0 else {"load": division.load}),
        **({} if division.axis is Axis.TENSOR else {"axis": division.axis.value}),
        **({} if division.outer is None else {"outer": _division_json(division.outer)}),
        **({} if division.redundant == 0 else {"redundant": division.redundant}),
    }


def _record_json(record: DividedTensor | DividedCall | SavedForBackward) -> dict[str, object]:
    """Without what is at its default."""
    given = ((each, getattr(record, each.name)) for each in fields(record))
    return {each.name: record_json(value) for each, value in given if value != each.default and value != {}}


def _integers(field: Field) -> tuple[int, ...]:
    return tuple(item.integer(-MAX_RANK) for item in field.items(MAX_RANK))


def _positions(field: Field) -> tuple[int, ...]:
    return tuple(item.integer() for item in field.items(MAX_OPERATORS))


_read_tensor = reader_of(DividedTensor, shape=lambda field: tuple(item.integer() for item in field.items(MAX_RANK)))
_read_call = reader_of(
    DividedCall,
    arguments=lambda field: tuple(item.text() for item in field.items(MAX_OPERATORS)),
    inputs=_positions,
    outputs=_positions,
    integers=lambda field: {name: _integers(item) for name, item in field.mapping(MAX_RANK).items()},
)


_read_saved = reader_of(SavedForBackward, tensors=_positions)


def _read_division(field: Field, operators: int, *, nests: bool = True) -> Division:
    """nests: whether it may state an outer division."""
    more = ("saved", "load", "axis", "redundant", *(("outer",) if nests else ()))
    parts = field.fields(("tensors", "calls", "outputs"), more)
    tensors = tuple(map(_read_tensor, parts["tensors"].items(MAX_TENSORS)))
    calls = tuple(map(_read_call, parts["calls"].items(MAX_TENSORS)))
    outputs = tuple(item.integer(0, len(tensors) - 1) for item in parts["outputs"].items(MAX_TENSORS))
    for number, call in enumerate(calls):
        places = (*call.inputs, *call.outputs)
        if any(place >= len(tensors) for place in places) or (call.operator or 0) >= operators:
            raise InvalidProblem(f"{parts['calls'].where}.rows[{number}]: there is no such tensor or operator")
        if len(call.arguments) != len(call.inputs):
            raise InvalidProblem(f"{parts['calls'].where}.rows[{number}]: expected an argument for every input")
    if any(tensor.base is not None and tensor.base >= len(tensors) for tensor in tensors):
        raise InvalidProblem(f"{parts['tensors'].where}: a tensor is in the storage of one that is not there")
    saved = tuple(map(_read_saved, parts["saved"].items(MAX_TENSORS))) if "saved" in parts else None
    if any(one.call >= len(calls) for one in saved or ()):
        raise InvalidProblem(f"{parts['saved'].where}: a call that is not there saves something")
    load = parts["load"].number(1.0) if "load" in parts else 1.0
    axis = parts["axis"].choice(Axis) if "axis" in parts else Axis.TENSOR
    outer = _read_division(parts["outer"], operators, nests=False) if "outer" in parts else None
    redundant = parts["redundant"].integer(0, MAX_TENSORS) if "redundant" in parts else 0
    return Division(tensors, calls, outputs, saved, load, axis, outer, redundant)


def read_numbers(field: Field | None, count: int) -> tuple[float, ...] | None:
    """A list of ``count`` numbers >= 0, or None where there is no field."""
    if field is None or field.is_null:
        return None
    return tuple(item.number() for item in field.items(count, exactly=count))


def _operator_json(operator: Operator, whole: bool) -> dict[str, object]:
    unnamed = _UNNAMED | {"workspace_bytes"} if operator.phase in _ROOM_FOLLOWS else _UNNAMED
    return _written(operator, _OPERATOR, frozenset() if whole else unnamed)


def _written(
    value: Operator | Tensor, names: Iterable[str], left_out: frozenset[str] = frozenset()
) -> dict[str, object]:
    """The fields of these names that are not at their defaults."""
    default = _DEFAULT[type(value)]
    parts = ((name, getattr(value, name)) for name in names if name not in left_out)
    return {name: _part(part) for name, part in parts if part != default[name] or name in _ALWAYS}


def _part(value: Any) -> object:
    if isinstance(value, Amount):
        return [_exact(value.fixed), _exact(value.per_sample)]
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, str | bool) else _exact(value)


def _tensor_reader(operators: int) -> Callable[[Field], Tensor]:
    def position(field: Field) -> int:
        return field.integer(0, operators - 1)

    return reader_of(
        Tensor,
        producer=position,
        saver=position,
        consumers=lambda field: tuple(map(position, field.items(operators))),
        nbytes=_read_amount,
        shape=lambda field: tuple(item.integer() for item in field.items(MAX_RANK)),
    )


def _read_amount(field: Field) -> Amount:
    value = field.value
    if type(value) is list and len(value) == 2 and all(type(part) is float or type(part) is int for part in value):
        first, second = value
        if 0.0 <= first <= MAX_AMOUNT and 0.0 <= second <= MAX_AMOUNT:  # nearly all, and there are many
            return Amount(float(first), float(second))
    fixed, per_sample = (item.number() for item in field.items(2, exactly=2))
    return Amount(fixed, per_sample)


_read_operator = reader_of(Operator, **dict.fromkeys(_AMOUNTS, _read_amount))


def _exact(value: float) -> float | int:
    """Whole numbers as integers, so that 4 and 4.0 (which are equal) are written, and hashed, alike."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
