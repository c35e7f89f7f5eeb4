"""Which calls only look into an existing tensor, by names, shapes and strides.

A live capture sees the storage itself; a file does not hold it, so `pt2` asks here.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.tracing.captured import Node, Value

VIEWS = frozenset(
    f"aten.{name}"
    for name in (
        "_reshape_alias", "_unsafe_view", "adjoint", "alias", "as_strided", "broadcast_to", "chunk", "detach",
        "diagonal", "expand", "expand_as", "imag", "lift_fresh", "mH", "mT", "matrix_H", "movedim", "moveaxis",
        "narrow", "numpy_T", "permute", "positive", "real", "select", "slice", "split", "split_with_sizes",
        "squeeze", "swapaxes", "swapdims", "t", "tensor_split", "hsplit", "vsplit", "dsplit", "transpose", "unbind",
        "unflatten", "unfold", "unsqueeze", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "view",
        "view_as", "view_as_complex", "view_as_real",
    )
)  # fmt: skip
"""Calls that always return a view of their first argument."""

VIEWS_OF_EACH = frozenset({"aten.broadcast_tensors", "aten.meshgrid"})
"""Calls that return one view of each of their arguments."""

SAME_WHEN_POSSIBLE = frozenset({"aten.reshape", "aten.flatten", "aten.reshape_as", "aten.ravel"})
"""Views where the strides allow it, else copies."""

DROPOUTS = frozenset({"aten.dropout", "aten.feature_dropout", "aten.alpha_dropout"})


def is_view_of(node: Node, source: Value, output: Value) -> bool:
    """Whether ``output`` of ``node`` shares the storage of ``source``: its first tensor argument, or for one of
    `VIEWS_OF_EACH` the argument at the same position."""
    if node.target in VIEWS or node.target in VIEWS_OF_EACH:
        return True
    if node.target in SAME_WHEN_POSSIBLE:
        return can_view(source.shape, source.strides, output.shape)
    if node.target == "aten.contiguous":
        return is_contiguous(source.shape, source.strides)
    if node.target in ("aten.to", "aten.type_as"):
        return source.dtype == output.dtype and source.strides == output.strides and not node.constants.get("copy")
    if node.target in DROPOUTS:
        return node.constants.get("train") is False or node.constants.get("p") == 0.0
    return False


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Row-major without gaps (dimensions of size 1 may have any stride)."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def can_view(shape: Sequence[int], strides: Sequence[int], target: Sequence[int]) -> bool:
    """Whether a tensor can be seen in another shape without a copy (as ATen's computeStride): each run
    of dimensions that lie densely in memory must be split or joined within itself."""
    left = [size for size in reversed(target) if size != 1]
    run = 1
    dims = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    for position in range(len(dims) - 1, -1, -1):
        size, stride = dims[position]
        run *= size
        if position > 0 and dims[position - 1][1] == stride * size:
            continue
        while left and run > 1:
            if run % left[0]:
                return False
            run //= left.pop(0)
        if run > 1:
            return False
    return not left
