"""What is assumed of how a model trains, its precision and what runs again, where a person may not expect it."""

from __future__ import annotations

from explorer.costs.roofline import stated_dtype
from solvers.problem.problem import Optimizer, Precision, Problem
from solvers.problem.regions import regions_of
from solvers.problem.training import copies


def precision_note(problem: Problem) -> str | None:
    """ "bf16 weights without fp32 masters: 8 bytes a parameter with adam; --precision mixed counts 16", or None where
    sizes are stated, nothing is trained, or weights are fp32."""
    dtype = stated_dtype(problem.graph)
    counted = problem.training and problem.stated_bytes is None and problem.optimizer is not Optimizer.NONE
    if not counted or problem.precision is not Precision.PURE or dtype not in ("bf16", "fp16"):
        return None
    if not any(operator.trained_bytes for operator in problem.graph.operators):
        return None
    pure, mixed = (_bytes_a_parameter(problem, precision) for precision in (Precision.PURE, Precision.MIXED))
    return (
        f"{dtype} weights without fp32 masters: {pure:g} bytes a parameter with {problem.optimizer.value};"
        f" --precision mixed counts {mixed:g}"
    )


def regions_note(problem: Problem) -> str | None:
    """ "12 regions run their forward again before their backward: what comes in is kept", None where none does."""
    if problem.plain is None:
        return None
    found = regions_of(problem.plain.graph)
    cached = sum(problem.plain.graph.operators[o].cached for o in found.of)
    count = len(found.members)
    again = f"{count} regions run their forward" if count > 1 else "1 region runs its forward"
    kept = f", and what {cached} of their {len(found.of)} operators make," if cached else ""
    return f"{again} again before the backward: what comes in{kept} is kept for each micro-batch"


def _bytes_a_parameter(problem: Problem, precision: Precision) -> float:
    """Of 16 bits, whose states are not factored."""
    held = copies(problem.optimizer, precision)
    states = 0.0 if held.factored else held.states
    return 2.0 * (1.0 + held.gradients + held.masters + states)
