"""A graph in another precision, where one that was traced tells it: nobody waits for a second trace."""

from __future__ import annotations

from dataclasses import replace

from solvers.formats.workload import Workload

NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""What is asked for, as a graph calls it."""
FLOATING = frozenset((*NAMES.values(), "float64"))


def in_dtype(workload: Workload, traced_in: str | None, asked: str) -> Workload | None:
    """The workload as if it had been traced in ``asked``; None if only a trace can tell.

    traced_in: the dtype that was asked for when it was traced, None for the model's own. bf16 and fp16 have the same
    sizes and counts; a model whose floating tensors are all of one dtype is in that dtype already. What has four bytes
    in place of two is another matter: integers and what is kept in fp32 do not change with it.
    """
    found = {tensor.dtype for tensor in workload.graph.tensors} & FLOATING
    if found == {NAMES[asked]}:
        return workload
    if traced_in is None or {traced_in, asked} != {"bf16", "fp16"}:
        return None
    renamed = tuple(
        replace(tensor, dtype=NAMES[asked]) if tensor.dtype == NAMES[traced_in] else tensor
        for tensor in workload.graph.tensors
    )
    return replace(workload, graph=replace(workload.graph, tensors=renamed))
