"""What an operator has to do once, said so that two operators of different models can be found to do the same.

That is its class (its kind, its phase, its dtype) and its size: FLOPs, bytes moved, and of a product how many there are
of how many rows, columns and terms a sum. Equal calls take equally long on one device; names and positions do not
matter. Sizes are whole numbers, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from explorer.costs.roofline import DTYPES, dtype_of
from explorer.costs.shapes import Shapes, shapes
from solvers.problem.graph import Operator, OpGraph, Phase

MOST = float(2**53)
"""Largest size that is distinguished: beyond it a float is no longer exact."""


class Class(NamedTuple):
    """What is compared with what. op_type: "aten.linear", or "update.adam" for the step of an optimizer. dtype: "fp32",
    "bf16" or "fp16" of what the forward gives, or its name in torch where it is none of these."""

    op_type: str
    phase: Phase
    dtype: str


class Size(NamedTuple):
    """Of one call. count, rows, columns and depth (terms of a sum) are those of products, in the role that they have in
    this phase, and 1 for what is none (see `costs.shapes`)."""

    flops: int
    moved_bytes: int
    count: int = 1  # type: ignore[assignment]  # nobody counts the members of this tuple
    rows: int = 1
    columns: int = 1
    depth: int = 1


@dataclass(frozen=True, slots=True)
class Call:
    """One operator once, at some number of samples."""

    of: Class
    size: Size


def classes(graph: OpGraph, optimizer: str) -> list[Class]:
    """The class of every operator. optimizer: whose steps updates are, "adam" or "sgd"."""
    usual = dtype_of(graph)
    return [
        Class(f"update.{optimizer}", Phase.UPDATE, usual)
        if operator.phase is Phase.UPDATE
        else Class(operator.op_type, operator.phase, _dtype(graph, position, operator, usual))
        for position, operator in enumerate(graph.operators)
    ]


def sizes(graph: OpGraph, samples: Sequence[int]) -> list[list[Size]]:
    """The size of every operator at each number of samples."""
    work = shapes(graph)
    columns = [_sizes_at(graph, work, count) for count in samples]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in graph.operators]


def _sizes_at(graph: OpGraph, work: Shapes, samples: int) -> list[Size]:
    growth = samples / graph.samples
    numbers = np.array(
        [
            [operator.flops.at(samples) for operator in graph.operators],
            [operator.moved_bytes.at(samples) for operator in graph.operators],
            np.where(work.count_grows, work.count * growth, work.count),
            np.where(work.rows_grow, work.rows * growth, work.rows),
            work.columns,
            np.where(work.depth_grows, work.depth * growth, work.depth),
        ]
    )
    whole = np.rint(np.minimum(numbers, MOST)).astype(np.int64)
    return [Size(*row) for row in whole.T.tolist()]


def _dtype(graph: OpGraph, position: int, operator: Operator, usual: str) -> str:
    forward = position if operator.forward_of is None else operator.forward_of
    made = graph.outputs[forward]
    dtype = graph.tensors[made[0]].dtype if made else ""
    return DTYPES.get(dtype, dtype) or usual
