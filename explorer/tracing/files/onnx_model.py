"""The graph in an ONNX file: nodes, and tensors by shape. Weights are sizes; their bytes are skipped, and those that
lie in another file are never looked for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from explorer.tracing.files.protobuf import fields, number, numbers, piece, text
from solvers.errors import InvalidProblem

MAX_NODES = 50_000
MAX_TENSORS = 200_000
MAX_RANK = 32
MAX_NUMEL = 2**50
SMALL_BYTES = 4096
"""Constants up to this are kept: shapes are computed from them."""

DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
}  # fmt: skip
"""onnx.TensorProto.DataType, those that the rest of the package knows."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """shape: None for a dimension that is not stated. elsewhere: whether its bytes are in another file."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    elsewhere: bool = False

    @property
    def is_known(self) -> bool:
        return None not in self.shape


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """attributes: integers, lists of integers and strings by name."""

    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, object]
    constant: Tensor | None


@dataclass(slots=True)
class OnnxGraph:
    """tensors: everything that has a stated shape, by name. functions: whether the file defines operators itself."""

    nodes: list[OnnxNode] = field(default_factory=list)
    initializers: dict[str, Tensor] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    functions: bool = False


def looks_like_onnx(head: bytes) -> bool:
    """A version of ONNX's format, then another field of a model."""
    return head[:1] == b"\x08" and 1 <= int.from_bytes(head[1:2]) <= 32 and head[2:3] in b"\x12\x1a\x22\x2a\x32\x3a\x42"


def graph_part(data: memoryview) -> memoryview:
    """The one graph of a model. Raises InvalidProblem."""
    graphs = [piece(value) for key, value in fields(data) if key == 7]
    if len(graphs) != 1:
        raise InvalidProblem(f"expected one graph, found {len(graphs)}")
    return graphs[0]


def read_onnx(data: memoryview) -> OnnxGraph:
    """Raises InvalidProblem for what is malformed, too large, or no fixed graph of operators."""
    made = OnnxGraph(functions=any(key == 25 for key, _ in fields(data)))
    part = graph_part(data)
    nodes = 0
    for key, _ in fields(part):  # before anything is kept
        nodes += key == 1
        if nodes > MAX_NODES:
            raise InvalidProblem(f"more than {MAX_NODES:,} nodes")
    for key, value in fields(part):
        if key == 1:
            made.nodes.append(_node(piece(value)))
        elif key == 5:
            tensor = _initializer(piece(value))
            made.initializers[tensor.name] = tensor
        elif key in (11, 12, 13):
            tensor = _value_info(piece(value))
            if tensor.dtype:
                made.tensors[tensor.name] = tensor
            if key != 13:
                (made.inputs if key == 11 else made.outputs).append(tensor.name)
        elif key == 15:
            raise InvalidProblem("sparse initializers are not supported")
        if len(made.tensors) + len(made.initializers) > MAX_TENSORS:
            raise InvalidProblem(f"more than {MAX_TENSORS:,} tensors")
    made.inputs = [name for name in made.inputs if name not in made.initializers]
    return made


def _node(data: memoryview) -> OnnxNode:
    inputs, outputs = [], []
    name = op_type = domain = ""
    attributes: dict[str, object] = {}
    constant = None
    for key, value in fields(data):
        if key == 1:
            inputs.append(text(value))
        elif key == 2:
            outputs.append(text(value))
        elif key == 3:
            name = text(value)
        elif key == 4:
            op_type = text(value)
        elif key == 5:
            label, value_of, tensor, inner = _attribute(piece(value))
            if inner:
                raise InvalidProblem(f"node {name or op_type!r}: {op_type} (control flow inside the graph)")
            attributes[label], constant = value_of, tensor or constant
        elif key == 7:
            domain = text(value)
    return OnnxNode(name, op_type, domain, tuple(inputs), tuple(outputs), attributes, constant)


def _attribute(data: memoryview) -> tuple[str, object, Tensor | None, bool]:
    name, listed, tensor, inner = "", [], None, False
    content: int | str | None = None
    for key, value in fields(data):
        if key == 1:
            name = text(value)
        elif key == 3:
            content = number(value)
        elif key == 4:
            content = text(value)
        elif key == 8:
            listed += numbers(value, SMALL_BYTES)
        elif key == 5:
            tensor = _initializer(piece(value))
        elif key in (6, 11):
            inner = True
    return name, listed or content, tensor, inner


def _initializer(data: memoryview) -> Tensor:
    name, dtype, elsewhere = "", 0, False
    dims: list[int] = []
    for key, value in fields(data):
        if key == 1:
            dims += numbers(value, MAX_RANK)
        elif key == 2:
            dtype = number(value)
        elif key == 8:
            name = text(value)
        elif key == 13 or (key == 14 and value == 1):
            elsewhere = True
    return Tensor(name, checked(dims, name), _dtype(dtype, name), elsewhere)


def checked(dims: Iterable[int], name: str) -> tuple[int, ...]:
    """Raises InvalidProblem for sizes that no tensor has."""
    shape = tuple(dims)
    if len(shape) > MAX_RANK or any(size < 0 for size in shape) or math.prod(shape) > MAX_NUMEL:
        raise InvalidProblem(f"tensor {name!r} has the shape {list(shape)[:8]}")
    return shape


def _value_info(data: memoryview) -> Tensor:
    name, dtype = "", ""
    shape: list[int | None] = []
    for key, value in fields(data):
        if key == 1:
            name = text(value)
        if key != 2:
            continue
        for kind, of in fields(piece(value)):
            if kind != 1:
                raise InvalidProblem(f"{name!r} is no tensor (a sequence, a map or an optional)")
            stated = False
            for inner, part in fields(piece(of)):
                if inner == 1:
                    dtype = _dtype(number(part), name)
                elif inner == 2:
                    stated = True
                    shape = [_dim(piece(dim)) for _, dim in fields(piece(part))]
            if not stated:
                dtype = ""
    checked((size for size in shape if size is not None), name)
    return Tensor(name, tuple(shape), dtype)


def _dim(data: memoryview) -> int | None:
    sizes = [number(value) for key, value in fields(data) if key == 1]
    return sizes[0] if sizes and sizes[0] > 0 else None


def _dtype(code: int, name: str) -> str:
    if code not in DTYPES:
        raise InvalidProblem(f"tensor {name!r} is of ONNX's type {code}, which is not supported")
    return DTYPES[code]
