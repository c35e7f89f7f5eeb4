"""The products inside operators: how many, and how large, as the roofline needs them.

An operator knows its FLOPs, and its output tensor its shape: rows and columns come from the shape,
and the length of the sum from flops = 2 x count x rows x columns x depth. The backward of a product
is a product of the same three numbers in another role.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from explorer.costs.efficiency import WorkClass
from solvers.kernels.arrays import Floats
from solvers.problem.collectives import ATTENTION
from solvers.problem.graph import CACHED_ATTENTION, Operator, OpGraph, Phase, per_graph

MATRIX = frozenset({"aten.linear", "aten.addmm", "aten.mm", "aten.lstm", "aten.gru", "aten._grouped_mm",
                    "aten._scaled_mm", "transformers.grouped_mm_fallback"})  # fmt: skip
"""Rows are everything but the last dimension, those of all experts together."""
BATCHED = frozenset({"aten.bmm", "aten.baddbmm", "aten.matmul", "aten.einsum"})
"""The last two dimensions are one product; those before count them."""
CONVOLUTION = frozenset({"aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.convolution", "aten.conv_transpose1d",
                         "aten.conv_transpose2d", "aten.conv_transpose3d"})  # fmt: skip
"""An implicit product: rows = positions, columns = output channels (NVIDIA, "Convolutional Layers User's
Guide", section 2)."""
CELLS = {"aten.lstm_cell": 4, "aten.gru_cell": 3, "aten.rnn_tanh_cell": 1, "aten.rnn_relu_cell": 1}
"""A recurrent cell has so many gates: columns = gates x width."""
ATTENTIONS = frozenset({ATTENTION, CACHED_ATTENTION})


NORM = frozenset({"aten.layer_norm", "aten.rms_norm", "aten._fused_rms_norm", "aten.native_layer_norm"})
"""Over the last dimension. Those over others (of batches, groups of channels) are of another kind of kernel."""
EMBEDDING = frozenset({"aten.embedding", "aten.embedding_bag"})
ELEMENTWISE = frozenset({"aten.add", "aten.sub", "aten.mul", "aten.div", "aten.neg", "aten.relu", "aten.gelu",
                         "aten.silu", "aten.sigmoid", "aten.tanh", "aten.exp", "aten.rsqrt", "aten.pow",
                         "aten.where", "aten.masked_fill", "aten.clone", "aten._to_copy", "aten.to"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shapes:
    """Arrays of one entry an operator, at the traced batch. work is its `WorkClass`. count, rows, columns, depth are 1
    where the work is not a product; *_grows say which of them is in proportion to the samples."""

    work: NDArray[np.str_]
    count: NDArray[np.float64]
    rows: NDArray[np.float64]
    columns: NDArray[np.float64]
    depth: NDArray[np.float64]
    count_grows: NDArray[np.bool_]
    rows_grow: NDArray[np.bool_]
    depth_grows: NDArray[np.bool_]


@per_graph
def shapes(graph: OpGraph) -> Shapes:
    """The products of every operator."""
    products = [_product(graph, position, operator) for position, operator in enumerate(graph.operators)]
    columns = list(zip(*products, strict=True))
    count, rows, wide, depth = (np.array(column, dtype=np.float64) for column in columns[1:5])
    grows = [np.array(column, dtype=np.bool_) for column in columns[5:]]
    return Shapes(np.array(columns[0], dtype=np.str_), count, rows, wide, depth, *grows)


def ring_rounds(graph: OpGraph) -> Floats:
    """How many kernels run one after the other in an operator, [operators]: of attention whose keys go round a ring one
    for those of every member, which sends all but the last on; else 1."""
    sources = (one if one.forward_of is None else graph.operators[one.forward_of] for one in graph.operators)
    steps = [each.exchange_steps + each.outer_steps if each.op_type == ATTENTION else 0 for each in sources]
    updates = [one.phase is Phase.UPDATE for one in graph.operators]
    return np.where(updates, 1.0, 1.0 + np.array(steps, dtype=np.float64))


Entry = tuple[WorkClass, float, float, float, float, bool, bool, bool]


def _without_product(op_type: str, phase: Phase) -> Entry:
    """Of what memory bounds."""
    by_type = ((ELEMENTWISE, WorkClass.ELEMENTWISE), (NORM, WorkClass.NORM), (EMBEDDING, WorkClass.EMBEDDING))
    classes = (work for types, work in by_type if op_type in types and phase is not Phase.UPDATE)
    return (next(classes, WorkClass.MEMORY), 1.0, 1.0, 1.0, 1.0, False, False, False)


def _product(graph: OpGraph, position: int, operator: Operator) -> Entry:
    forward = position if operator.forward_of is None else operator.forward_of
    source = graph.operators[forward]
    if operator.phase is Phase.UPDATE or not graph.outputs[forward]:
        return _without_product(source.op_type, operator.phase)
    shape = graph.tensors[graph.outputs[forward][0]].shape
    size = _count_rows_columns(source.op_type, shape)
    flops = source.flops.at(graph.samples)
    if size is None or flops <= 0:
        return _without_product(source.op_type, operator.phase)
    work, count, rows, columns = size
    depth = max(1.0, flops / (2.0 * count * rows * columns))
    grows = source.flops.per_sample > 0
    if work is WorkClass.ATTENTION:
        work = WorkClass.ATTENTION if operator.phase is Phase.FORWARD else WorkClass.ATTENTION_BACKWARD
        return (work, count, rows, columns, depth, grows, False, False)
    batched = source.op_type in BATCHED
    if operator.phase is Phase.BACKWARD_INPUT:
        return (work, count, rows, depth, columns, batched and grows, not batched and grows, False)
    if operator.phase is Phase.BACKWARD_WEIGHT and not batched:
        return (work, count, columns, depth, rows, False, False, grows)
    return (work, count, rows, columns, depth, batched and grows, not batched and grows, False)


def _count_rows_columns(op_type: str, shape: tuple[int, ...]) -> tuple[WorkClass, float, float, float] | None:
    if not shape or 0 in shape:
        return None
    if op_type in MATRIX:
        return WorkClass.PRODUCTS, 1.0, math.prod(shape[:-1]), shape[-1]
    if op_type in BATCHED and len(shape) >= 2:
        return WorkClass.PRODUCTS, math.prod(shape[:-2]), shape[-2], shape[-1]
    if op_type in CELLS:
        return WorkClass.PRODUCTS, 1.0, math.prod(shape[:-1]), CELLS[op_type] * shape[-1]
    if op_type in CONVOLUTION and len(shape) >= 3:
        return WorkClass.CONVOLUTIONS, 1.0, shape[0] * math.prod(shape[2:]), shape[1]
    if op_type in ATTENTIONS and len(shape) >= 2:
        return WorkClass.ATTENTION, math.prod(shape[:-2]), shape[-2], shape[-1]
    return None
