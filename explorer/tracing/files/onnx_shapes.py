"""Shapes of everything in an ONNX graph, by the `onnx` package in a process with limits.

It is given the graph without its weights, with every dimension stated, and nothing that names another file.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from explorer.tracing.files.onnx_model import SMALL_BYTES, graph_part
from explorer.tracing.files.protobuf import field, fields, number, piece, text
from solvers.errors import InvalidProblem

LIMIT_S = 60
LIMIT_BYTES = 2 * 2**30
MAX_BYTES = 256 * 2**20
"""Of a graph without its weights."""

CHILD = Path(__file__).with_name("onnx_child.py")


def with_shapes(data: memoryview, sizes: Mapping[str, tuple[int, ...]], name: str) -> memoryview:
    """The model with its own functions put in and all shapes that follow from those of its inputs. sizes: of the
    inputs. Raises InvalidProblem in one line."""
    if importlib.util.find_spec("onnx") is None:
        raise InvalidProblem(
            f"{name}: does not state the shape of every tensor; to infer them: pip install 'placement-explorer[onnx]'"
        )
    stripped = b"".join(_model(data, sizes))
    if len(stripped) > MAX_BYTES:
        raise InvalidProblem(f"{name}: the graph without its weights is {len(stripped):,} bytes")
    try:
        ran = subprocess.run(
            [sys.executable, "-I", str(CHILD), str(LIMIT_BYTES), str(LIMIT_S)],
            input=stripped,
            capture_output=True,
            timeout=2 * LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InvalidProblem(f"{name}: its shapes took more than {2 * LIMIT_S} s to infer") from None
    if ran.returncode:
        message = (ran.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"])[-1][:300]
        raise InvalidProblem(f"{name}: its shapes could not be inferred ({message})")
    return memoryview(ran.stdout)


INSIDE = {
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
"""Of ONNX's messages those that may hold a tensor, by the number of the field."""
FILES = (13, 14)
"""Fields of a tensor that name another file, and say that its bytes are there."""


def named_nowhere(data: memoryview, kind: str) -> bytes:
    """A message of ``kind`` in which no tensor names another file: the `onnx` package would look for constants that a
    node holds, relative to where it runs."""
    if not _names_a_file(data, kind):
        return bytes(data)
    return b"".join(
        field(key, value if key not in INSIDE[kind] else named_nowhere(piece(value), INSIDE[kind][key]))
        for key, value in fields(data)
        if kind != "tensor" or key not in FILES
    )


def _names_a_file(data: memoryview, kind: str) -> bool:
    if kind == "tensor":
        return any(key in FILES for key, _ in fields(data))
    inside = INSIDE[kind]
    return any(_names_a_file(piece(value), inside[key]) for key, value in fields(data) if key in inside)


def _model(data: memoryview, sizes: Mapping[str, tuple[int, ...]]) -> Iterator[bytes]:
    for key, value in fields(data):
        if key == 7:
            yield field(7, b"".join(_graph(graph_part(data), sizes)))
        elif key == 25:  # functions of its own
            yield field(key, named_nowhere(piece(value), "function"))
        elif key in (1, 8):  # versions
            yield field(key, value)


def _graph(data: memoryview, sizes: Mapping[str, tuple[int, ...]]) -> Iterator[bytes]:
    for key, value in fields(data):
        if key == 1:
            yield field(key, named_nowhere(piece(value), "node"))
        elif key == 2:
            yield field(key, value)
        elif key == 5:
            yield field(5, b"".join(_initializer(piece(value))))
        elif key == 11:
            yield field(11, _input(piece(value), sizes))
        elif key == 12:  # by name only: its shape follows
            yield field(12, b"".join(field(k, v) for k, v in fields(piece(value)) if k == 1))


def _initializer(data: memoryview) -> Iterator[bytes]:
    for key, value in fields(data):
        small = isinstance(value, int) or len(value) <= SMALL_BYTES
        if key in (1, 2, 8) or (key in (4, 5, 7, 9, 10, 11) and small):
            yield field(key, value)


def _input(data: memoryview, sizes: Mapping[str, tuple[int, ...]]) -> bytes:
    """Every dimension as a number."""
    name = next((text(value) for key, value in fields(data) if key == 1), "")
    if name not in sizes:
        return bytes(data)
    shape = b"".join(field(1, field(1, size)) for size in sizes[name])
    kind = next(
        number(code)
        for key, value in fields(data) if key == 2
        for inner, part in fields(piece(value)) if inner == 1
        for at, code in fields(piece(part)) if at == 1
    )  # fmt: skip
    return field(1, name.encode()) + field(2, field(1, field(1, kind) + field(2, shape)))
