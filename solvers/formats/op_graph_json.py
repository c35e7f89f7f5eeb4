"""The operator graph as a JSON value, and the hash that names it."""

from __future__ import annotations

import hashlib
import sys

from solvers.formats.cluster_json import MAX_OPERATORS
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json
from solvers.problem.graph import NOTHING, Amount, Operator, OpGraph, Phase, Tensor

MAX_TENSORS = 4_000_000
MAX_RANK = 64
MAX_AMOUNT = sys.float_info.max

_AMOUNTS = ("flops", "moved_bytes", "saved_bytes", "workspace_bytes")
_OPERATOR = (
    "op_type", "phase", "module_path", *_AMOUNTS, "param_bytes", "frozen_bytes", "factorable_bytes", "colocation",
    "forward_of", "replicable", "checkpoint", "cached", "buffer_bytes", "gradient_sum_bytes",
    "causal",
)  # fmt: skip
_ROOM_FOLLOWS = frozenset({Phase.BACKWARD_WEIGHT, Phase.UPDATE})
"""Phases whose workspace is that of `solvers.problem.gradient_room`, which differs from question to question."""
_TENSOR = ("nbytes", "shape", "dtype", "sum_group")


def graph_hash(graph: OpGraph) -> str:
    """sha256 of the graph's canonical JSON: equal graphs have equal hashes. Without `Operator.factorable_bytes`, which
    follow from the same parameters, buffers and causal masks, which follow from the same module, room for gradients and
    updates, and regions, which are a way to run the same operators: plans and profiles of files that do not state them
    are of the same graph."""
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
        "operators": [_operator_json(operator, whole) for operator in graph.operators],
        "tensors": [_tensor_json(tensor) for tensor in graph.tensors],
    }


def read_op_graph(field: Field) -> OpGraph:
    """Raises InvalidProblem."""
    parts = field.fields(("name", "samples", "operators", "tensors"))
    operators = tuple(_read_operator(item) for item in parts["operators"].items(MAX_OPERATORS))
    tensors = tuple(_read_tensor(item, len(operators)) for item in parts["tensors"].items(MAX_TENSORS))
    samples, name = parts["samples"].integer(1), parts["name"].text()
    return field.located(lambda: OpGraph(operators, tensors, samples, name))


def read_numbers(field: Field | None, count: int) -> tuple[float, ...] | None:
    """A list of ``count`` numbers >= 0, or None where there is no field."""
    if field is None or field.is_null:
        return None
    return tuple(item.number() for item in field.items(count, exactly=count))


def _operator_json(operator: Operator, whole: bool) -> dict[str, object]:
    written: dict[str, object] = {"name": operator.name, "op_type": operator.op_type, "phase": operator.phase.value}
    if operator.module_path:
        written["module_path"] = operator.module_path
    for key in _AMOUNTS:
        amount: Amount = getattr(operator, key)
        if amount != NOTHING and (whole or key != "workspace_bytes" or operator.phase not in _ROOM_FOLLOWS):
            written[key] = [_exact(amount.fixed), _exact(amount.per_sample)]
    if operator.param_bytes:
        written["param_bytes"] = _exact(operator.param_bytes)
    if operator.frozen_bytes:
        written["frozen_bytes"] = _exact(operator.frozen_bytes)
    if whole and operator.factorable_bytes:
        written["factorable_bytes"] = _exact(operator.factorable_bytes)
    if operator.colocation is not None:
        written["colocation"] = operator.colocation
    if operator.forward_of is not None:
        written["forward_of"] = operator.forward_of
    if operator.replicable:
        written["replicable"] = True
    if whole and operator.checkpoint:
        written["checkpoint"] = operator.checkpoint
    if whole and operator.cached:
        written["cached"] = True
    if whole and operator.buffer_bytes:
        written["buffer_bytes"] = _exact(operator.buffer_bytes)
    if whole and operator.gradient_sum_bytes:
        written["gradient_sum_bytes"] = _exact(operator.gradient_sum_bytes)
    if whole and operator.causal:
        written["causal"] = True
    return written


def _read_operator(field: Field) -> Operator:
    parts = field.fields(("name",), _OPERATOR)
    amounts = {key: _read_amount(parts[key]) for key in _AMOUNTS if key in parts}
    return Operator(
        parts["name"].text(),
        parts["op_type"].text() if "op_type" in parts else "operator",
        parts["phase"].choice(Phase) if "phase" in parts else Phase.FORWARD,
        parts["module_path"].text() if "module_path" in parts else "",
        amounts.get("flops", NOTHING),
        amounts.get("moved_bytes", NOTHING),
        parts["param_bytes"].number() if "param_bytes" in parts else 0.0,
        parts["frozen_bytes"].number() if "frozen_bytes" in parts else 0.0,
        parts["factorable_bytes"].number() if "factorable_bytes" in parts else 0.0,
        amounts.get("saved_bytes", NOTHING),
        amounts.get("workspace_bytes", NOTHING),
        parts["colocation"].text() if "colocation" in parts else None,
        parts["forward_of"].integer() if "forward_of" in parts else None,
        parts["replicable"].flag() if "replicable" in parts else False,
        parts["checkpoint"].text() if "checkpoint" in parts else "",
        parts["cached"].flag() if "cached" in parts else False,
        parts["buffer_bytes"].number() if "buffer_bytes" in parts else 0.0,
        parts["gradient_sum_bytes"].number() if "gradient_sum_bytes" in parts else 0.0,
        parts["causal"].flag() if "causal" in parts else False,
    )


def _tensor_json(tensor: Tensor) -> dict[str, object]:
    written: dict[str, object] = {"producer": tensor.producer, "consumers": list(tensor.consumers)}
    if tensor.nbytes != NOTHING:
        written["nbytes"] = [_exact(tensor.nbytes.fixed), _exact(tensor.nbytes.per_sample)]
    if tensor.shape:
        written["shape"] = list(tensor.shape)
    if tensor.dtype:
        written["dtype"] = tensor.dtype
    if tensor.sum_group is not None:
        written["sum_group"] = tensor.sum_group
    return written


def _read_tensor(field: Field, operators: int) -> Tensor:
    parts = field.fields(("producer", "consumers"), _TENSOR)
    return Tensor(
        parts["producer"].integer(0, operators - 1),
        tuple(item.integer(0, operators - 1) for item in parts["consumers"].items(operators)),
        _read_amount(parts["nbytes"]) if "nbytes" in parts else NOTHING,
        tuple(item.integer() for item in parts["shape"].items(MAX_RANK)) if "shape" in parts else (),
        parts["dtype"].text() if "dtype" in parts else "",
        parts["sum_group"].integer() if "sum_group" in parts else None,
    )


def _read_amount(field: Field) -> Amount:
    value = field.value
    if type(value) is list and len(value) == 2 and all(type(part) is float or type(part) is int for part in value):
        first, second = value
        if 0.0 <= first <= MAX_AMOUNT and 0.0 <= second <= MAX_AMOUNT:  # nearly all, and there are many
            return Amount(float(first), float(second))
    fixed, per_sample = (item.number() for item in field.items(2, exactly=2))
    return Amount(fixed, per_sample)


def _exact(value: float) -> float | int:
    """Whole numbers as integers, so that 4 and 4.0 (which are equal) are written, and hashed, alike."""
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else float(value)
