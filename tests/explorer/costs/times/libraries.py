"""Graphs and libraries of operator times that a person can check by hand."""

from __future__ import annotations

from dataclasses import replace

from explorer.costs.times.calls import Call, Class, Size
from explorer.costs.times.library import CallTime, Library, Source
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor

MS = 1e-3
LINEAR = Class("aten.linear", Phase.FORWARD, "fp32")


def linear_size(rows: int, columns: int = 16, depth: int = 8) -> Size:
    """Of a product in fp32: reads rows and weights, writes rows."""
    nbytes = 4 * (rows * depth + columns * depth + rows * columns)
    return Size(2 * rows * columns * depth, nbytes, 1, rows, columns, depth)


def linear_time(rows: int, seconds: float, **changes: object) -> CallTime:
    time = CallTime(Call(LINEAR, linear_size(rows)), seconds, 0.1, 1, rows, (rows, 16))
    return replace(time, **changes)  # type: ignore[arg-type]


def library_of_linear(*times: CallTime, **changes: object) -> Library:
    """Of one core; by default 1 row takes 1 ms, and 4 rows 2 ms."""
    library = Library(
        "Slide Rule (R) 3000", 1, "2.13.0", "3.11", (Source("gpt", "2026-11-21T16:00:00Z", "wall clock", 1, 0.01),),
        times or (linear_time(1, MS), linear_time(4, 2 * MS)),
    )  # fmt: skip
    return replace(library, **changes)  # type: ignore[arg-type]


def linear_graph(*, also: str = "aten.relu", name: str = "mlp") -> OpGraph:
    """A linear of 8 to 16 columns, one row a sample, and something else after it."""
    work = Amount(0, 2 * 16 * 8)
    moved = Amount(4 * 16 * 8, 4 * (8 + 16))
    operators = (
        Operator("up/linear", "aten.linear", flops=work, moved_bytes=moved, param_bytes=4 * 16 * 8),
        Operator("relu", also, flops=Amount(0, 16), moved_bytes=Amount(0, 4 * 32)),
    )
    tensors = (
        Tensor(0, (1,), Amount(0, 4 * 16), (2, 16), "float32"),
        Tensor(1, (), Amount(0, 4 * 16), (2, 16), "float32"),
    )
    return OpGraph(operators, tensors, samples=2, name=name)
