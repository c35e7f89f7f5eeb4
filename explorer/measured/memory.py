"""What the peaks of a run were made of, beside what was predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.measured.comparison import PartError
from explorer.runner.bundles.outcome import Outcome
from solvers.evaluation.memory_parts import memory_parts
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem

SAME = {
    "parameters": ("parameters", "as stated"),
    "gradients": ("gradients",),
    "optimizer states": ("optimizer states", "fp32 masters"),
}
"""What torch calls a category of memory, and what the prediction has of it; all else is one kind on both sides."""
REST = "activations and all else"


def peak_parts(
    problem: Problem, plan: Plan, peaks: Sequence[float], outcome: Outcome
) -> dict[int, tuple[PartError, ...]]:
    """By device, of those that were measured by category. peaks: predicted, [devices] B."""
    measured = dict(zip(outcome.rank_devices, outcome.peak_parts, strict=False))
    if not any(measured.values()):
        return {}
    predicted = memory_parts(problem, plan, peaks)
    return {device: _beside(predicted[device], parts) for device, parts in measured.items() if parts}


def _beside(predicted: Mapping[str, float], measured: Mapping[str, float]) -> tuple[PartError, ...]:
    named = [
        PartError(name, sum(predicted.get(part, 0.0) for part in parts), measured.get(name, 0.0))
        for name, parts in SAME.items()
    ]
    rest = (
        (sum(predicted.values()) - sum(p.predicted_bytes for p in named)),
        (sum(measured.values()) - sum(p.measured_bytes for p in named)),
    )
    return tuple(
        part for part in (*named, PartError(REST, *rest)) if part.predicted_bytes > 0 or part.measured_bytes > 0
    )
