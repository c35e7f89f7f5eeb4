"""What a call in a trace had to do, from the shapes and dtypes of its arguments, in the numbers that tracing a model
gives (`tracing.forward`, `tracing.backward`), so that the two are found to be equal.

A trace has no shapes of results, so only operators are known whose result follows from their arguments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from explorer.costs.roofline import DTYPES
from explorer.costs.times.calls import MOST, Call, Class, sizes
from explorer.tracing.backward import ATTENTION_BACKWARD
from explorer.tracing.captured import Node, Value
from explorer.tracing.flops import PRODUCTS, flops
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor

Shape = tuple[int, ...]

TYPES = {
    "float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16", "long int": "int64",
    "int": "int32", "short": "int16", "signed char": "int8", "unsigned char": "uint8", "bool": "bool",
}  # fmt: skip
"""What the profiler calls dtypes."""
MAX_DIMENSIONS = 16
STATISTICS_BYTES = 4
"""Norms keep a mean and a scale of each row, attention a logarithm of a sum of each query, in fp32."""

ARGUMENTS = {
    "aten.linear": ("input", "weight", "bias"), "aten.addmm": ("self", "mat1", "mat2"), "aten.mm": ("self", "mat2"),
    "aten.bmm": ("self", "mat2"), "aten.baddbmm": ("self", "batch1", "batch2"), "aten.matmul": ("self", "other"),
    "aten.conv1d": ("input", "weight", "bias"), "aten.conv2d": ("input", "weight", "bias"),
    "aten.conv3d": ("input", "weight", "bias"), "aten.embedding": ("weight", "indices"),
    "aten.scaled_dot_product_attention": ("query", "key", "value", "attn_mask"),
    "aten.layer_norm": ("input", "normalized_shape", "weight", "bias"), "aten.rms_norm": ("input", "shape", "weight"),
    "aten.batch_norm": ("input", "weight", "bias", "running_mean", "running_var"),
    "aten.group_norm": ("input", "num_groups", "weight", "bias"),
}  # fmt: skip
"""Of operators that tell their arguments apart; those of others are all activations."""
WEIGHTS = frozenset({"weight", "bias"})
UNTRAINED = frozenset({"running_mean", "running_var"})
LIKE_FIRST = frozenset(
    f"aten.{name}"
    for name in (
        "relu", "relu_", "gelu", "silu", "tanh", "sigmoid", "dropout", "softmax", "log_softmax", "neg", "exp", "log",
        "sqrt", "rsqrt", "square", "pow", "abs", "clone", "contiguous", "leaky_relu", "elu", "hardtanh", "softplus",
        "cos", "sin", "layer_norm", "rms_norm", "batch_norm", "group_norm",
    )
)  # fmt: skip
BROADCAST = frozenset({"aten.add", "aten.add_", "aten.sub", "aten.mul", "aten.mul_", "aten.div", "aten.maximum",
                       "aten.minimum", "aten.where"})  # fmt: skip
CONVOLUTIONS = frozenset({"aten.conv1d", "aten.conv2d", "aten.conv3d"})


@dataclass(frozen=True, slots=True)
class Parts:
    """One operator as tracing would have it: forward, and where it can have them, gradients of inputs and weights."""

    forward: Call
    to_input: Call | None
    to_weight: Call | None
    shape: Shape


def parts_of(name: str, args: Mapping[str, object]) -> Parts | None:
    """What a call named "aten::linear" with the profiler's arguments had to do; None if they do not say."""
    target = name.replace("::", ".")
    tensors = _tensors(args)
    if tensors is None or target not in {*ARGUMENTS, *LIKE_FIRST, *BROADCAST}:
        return None
    named = ARGUMENTS.get(target, ())
    given = {named[at] if at < len(named) else f"argument {at}": tensor for at, tensor in tensors.items()}
    shape = _result(target, given, args)
    floats = [dtype for _, dtype in given.values() if dtype in DTYPES]
    if shape is None or not floats or 0 in shape:
        return None
    return _parts(target, given, shape, floats[0])


def _tensors(args: Mapping[str, object]) -> dict[int, tuple[Shape, str]] | None:
    """Position -> (shape, dtype) of the tensors among the arguments; None for what is no list of them."""
    shapes, types = args.get("Input Dims"), args.get("Input type")
    if not isinstance(shapes, list) or not isinstance(types, list) or len(shapes) != len(types):
        return None
    tensors = {}
    for at, (shape, type_) in enumerate(zip(shapes, types, strict=True)):
        dtype = TYPES.get(type_) if isinstance(type_, str) else None
        if dtype is None:
            continue
        if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
            return None
        if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MOST for n in shape):
            return None
        if math.prod(shape) > MOST:
            return None
        tensors[at] = (tuple(shape), dtype)
    return tensors


def _result(target: str, given: Mapping[str, tuple[Shape, str]], args: Mapping[str, object]) -> Shape | None:
    """The shape of what the call gives."""
    shapes = {name: shape for name, (shape, _) in given.items()}
    try:
        if target in LIKE_FIRST:
            return next(iter(shapes.values()))
        if target in BROADCAST:
            return _broadcast(list(shapes.values()))
        if target == "aten.linear":
            columns, depth = shapes["weight"]
            return (*shapes["input"][:-1], columns) if shapes["input"][-1] == depth else None
        if target == "aten.embedding":
            return (*shapes["indices"], shapes["weight"][1])
        if target == "aten.scaled_dot_product_attention":
            return (*shapes["query"][:-1], shapes["value"][-1])
        if target in CONVOLUTIONS:
            return _convolved(shapes["input"], shapes["weight"], args)
        left, right = (shapes[name] for name in ARGUMENTS[target][-2:])
        if len(left) < 2 or len(right) < 2:
            return None
        rows = _broadcast([left[:-2], right[:-2]])
        return None if rows is None or left[-1] != right[-2] else (*rows, left[-2], right[-1])
    except (KeyError, IndexError, StopIteration, ValueError):
        return None


def _broadcast(shapes: list[Shape]) -> Shape | None:
    sides: list[int] = []
    for at in range(1, 1 + max(map(len, shapes), default=0)):
        here = {shape[-at] for shape in shapes if len(shape) >= at} - {1}
        if len(here) > 1:
            return None
        sides.append(here.pop() if here else 1)
    return tuple(reversed(sides))


def _convolved(image: Shape, weight: Shape, args: Mapping[str, object]) -> Shape | None:
    """With stride, padding and dilation, the fourth to sixth argument: "[2, 2]", or one number for all sides."""
    constants = args.get("Concrete Inputs")
    sides = len(weight) - 2
    if not isinstance(constants, list) or len(constants) < 6 or len(image) != len(weight):
        return None
    stride, padding, dilation = (_numbers(constants[at], sides) for at in (3, 4, 5))
    if stride is None or padding is None or dilation is None or 0 in stride:
        return None
    lengths = [
        (image[2 + k] + 2 * padding[k] - dilation[k] * (weight[2 + k] - 1) - 1) // stride[k] + 1 for k in range(sides)
    ]
    return (image[0], weight[0], *lengths) if min(lengths) > 0 else None


def _numbers(text: object, count: int) -> list[int] | None:
    matches = re.findall(r"\d{1,9}", text) if isinstance(text, str) and len(text) < 100 else []
    numbers = [int(number) for number in matches]
    return numbers if len(numbers) == count else numbers * count if len(numbers) == 1 else None


def _parts(target: str, given: Mapping[str, tuple[Shape, str]], shape: Shape, dtype: str) -> Parts:
    values = {name: Value(name, size, (), kind) for name, (size, kind) in given.items()}
    values["result"] = Value("result", shape, (), dtype)
    weights = {name: value.nbytes for name, value in values.items() if name in WEIGHTS}
    aside = sum(value.nbytes for name, value in values.items() if name in UNTRAINED)
    read = [v for n, v in values.items() if n not in WEIGHTS and n not in UNTRAINED and n != "result"]
    node = Node("call", target, "", tuple((name, name) for name in given), {}, ("result",))
    work = flops(node, values, frozenset(weights) | UNTRAINED)
    out = values["result"].nbytes + _statistics(target, shape, given)
    rows = values["result"].nbytes if target == "aten.embedding" else 0
    looked_at = rows or sum(weights.values())
    read_bytes = sum(value.nbytes for value in read)
    carrying = sum(value.nbytes for value in read if value.is_float)
    product = target in PRODUCTS
    factor = 2.0 if product and not weights else 1.0
    if target == "aten.scaled_dot_product_attention":
        factor = ATTENTION_BACKWARD
    to_input = (work * factor, out + looked_at + carrying + (0 if weights and product else carrying))
    to_weight = (work, out + read_bytes + sum(weights.values()) + rows)
    phases = [(Phase.FORWARD, (work, read_bytes + looked_at + aside + out))]
    if carrying:
        phases.append((Phase.BACKWARD_INPUT, to_input))
    if weights:
        phases.append((Phase.BACKWARD_WEIGHT, to_weight))
    named = DTYPES.get(dtype, dtype)
    operators = tuple(
        Operator(
            phase.value,
            target,
            phase,
            flops=Amount(0, amount),
            moved_bytes=Amount(float(moved)),
            forward_of=None if phase is Phase.FORWARD else 0,
        )
        for phase, (amount, moved) in phases
    )
    made = Amount(0, float(values["result"].nbytes))
    graph = OpGraph(operators, (Tensor(0, tuple(range(1, len(phases))), made, shape, dtype),))
    calls = {
        phase: Call(Class(target, phase, named), row[0])
        for (phase, _), row in zip(phases, sizes(graph, (1,)), strict=True)
    }
    return Parts(calls[Phase.FORWARD], calls.get(Phase.BACKWARD_INPUT), calls.get(Phase.BACKWARD_WEIGHT), shape)


def _statistics(target: str, shape: Shape, given: Mapping[str, tuple[Shape, str]]) -> int:
    """Bytes that the forward makes for the backward, beside its result."""
    if target == "aten.layer_norm" and "weight" in given:
        return 2 * STATISTICS_BYTES * (math.prod(shape) // max(1, math.prod(given["weight"][0])))
    if target == "aten.scaled_dot_product_attention":
        return STATISTICS_BYTES * math.prod(shape[:-1])
    if target == "aten.batch_norm" and len(shape) > 1:
        return 2 * STATISTICS_BYTES * shape[1]
    return 0
