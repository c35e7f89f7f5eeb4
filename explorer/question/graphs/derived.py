"""A graph in another precision, where one that was traced tells it: nobody waits for a second trace."""

from __future__ import annotations

from solvers.formats.workload import Workload

NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""What is asked for, as a graph calls it."""
FLOATING = frozenset((*NAMES.values(), "float64"))


def in_dtype(workload: Workload, asked: str) -> Workload | None:
    """The workload as if it had been traced in ``asked``: the same, if its floating tensors are all of that dtype; None
    if only a trace can tell. Not even bf16 and fp16 follow from one another: PyTorch saves different tensors."""
    found = {tensor.dtype for tensor in workload.graph.tensors} & FLOATING
    return workload if found == {NAMES[asked]} else None
