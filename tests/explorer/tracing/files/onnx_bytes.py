"""ONNX files made byte by byte, without the `onnx` package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from explorer.tracing.files.protobuf import field

FLOAT, INT64 = 1, 7


def node(op_type: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", more: bytes = b"") -> bytes:
    """more: attributes and the like, as they are written."""
    parts = [field(1, x.encode()) for x in inputs] + [field(2, x.encode()) for x in outputs]
    return field(1, b"".join([*parts, field(3, name.encode()), field(4, op_type.encode()), more]))


def tensor(name: str, shape: Sequence[int], dtype: int = FLOAT, more: bytes = b"") -> bytes:
    """An initializer without bytes."""
    return field(5, b"".join(field(1, size) for size in shape) + field(2, dtype) + field(8, name.encode()) + more)


def value(number: int, name: str, shape: Sequence[int | str], dtype: int = FLOAT) -> bytes:
    """number: 11 for an input, 12 for an output, 13 for what is between. A text is a dimension left open."""
    dims = b"".join(field(1, field(1, x) if isinstance(x, int) else field(2, x.encode())) for x in shape)
    return field(number, field(1, name.encode()) + field(2, field(1, field(1, dtype) + field(2, dims))))


def model(parts: Iterable[bytes], more: bytes = b"") -> bytes:
    """Of opset 17."""
    return field(1, 8) + field(8, field(2, 17)) + field(7, b"".join(parts)) + more


def perceptron(*, hidden: int = 32, stated: bool = True, weight: bytes = b"", batch: int | str = 4) -> bytes:
    """[batch, 8] x [8, hidden], relu, x [hidden, 2] and a bias."""
    between = [value(13, "a", [4, hidden]), value(13, "b", [4, hidden]), value(13, "c", [4, 2])] if stated else []
    return model(
        [
            node("MatMul", ["x", "up.weight"], ["a"], "/up/MatMul"),
            node("Relu", ["a"], ["b"], "/Relu"),
            node("MatMul", ["b", "down.weight"], ["c"], "/down/MatMul"),
            node("Add", ["c", "down.bias"], ["y"], "/down/Add"),
            tensor("up.weight", [8, hidden], more=weight), tensor("down.weight", [hidden, 2]), tensor("down.bias", [2]),
            value(11, "x", [batch, 8]), value(12, "y", [batch, 2]), *between,
        ]
    )  # fmt: skip
