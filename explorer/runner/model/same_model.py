"""Whether a model traced again is the one that was planned."""

from __future__ import annotations

from solvers.errors import RunError
from solvers.formats.op_graph_json import graph_hash, same_by_name
from solvers.problem.graph import OpGraph


def check_same(traced: OpGraph, planned: OpGraph, reference: str) -> None:
    """Raises RunError, with what differs first."""
    if graph_hash(traced) == graph_hash(planned):
        return
    raise RunError(
        f"{reference}: the plan is of another version of the model ({_difference(traced, planned)}); plan it again"
    )


def _difference(traced: OpGraph, planned: OpGraph) -> str:
    for now, then in zip(traced.operators, planned.operators, strict=False):
        if now.name != then.name:
            return f"operator {then.name} of the plan is now {now.name}"
        if not same_by_name(now, then):  # room for gradients is of the question, not of the model
            return f"operator {then.name} has other sizes"
    if len(traced) != len(planned):
        return f"the plan has {len(planned)} operators, the model now {len(traced)}"
    for now_t, then_t in zip(traced.tensors, planned.tensors, strict=False):
        if now_t != then_t:
            return f"the output of {planned.operators[then_t.producer].name} is {list(now_t.shape)} {now_t.dtype}"
    return f"traced as {traced.name!r} at {traced.samples} samples, planned as {planned.name!r} at {planned.samples}"
