"""What is assumed of how a model is held, where a person may not expect it: precision, what runs again, copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from explorer.costs.roofline import stated_dtype
from explorer.words import text
from solvers.plan.plan import Plan
from solvers.problem.problem import Optimizer, Precision, Problem
from solvers.problem.regions import regions_of
from solvers.problem.tied import copied_bytes, copies_of, tied
from solvers.problem.training import copies


def assumed_notes(problem: Problem, plan: Plan | None) -> list[str]:
    """All of these of a question and its plan, if there is one."""
    copies = [] if plan is None else tied_notes(problem, plan.placement())
    notes = (precision_note(problem), regions_note(problem), *copies)
    return [note for note in notes if note is not None]


def tied_notes(problem: Problem, where: Mapping[int, tuple[int, ...]]) -> list[str]:
    """Who holds copies of tied parameters; in inference without them, that they could be had. where: operator ->
    devices."""
    devices = problem.cluster.devices
    if problem.copy_tied:
        return [
            f"{one.parameter} is held on {text.listing([devices[d].name for d in one.devices], len(devices))}:"
            f" {text.nbytes(one.more_bytes)} more"
            + ("" if len(one.devices) > 1 else ", a copy for each reader on one device; without --copy-tied it has one")
            for one in copies_of(problem, where)
        ]
    if problem.has_backward() or problem.stated_bytes is not None or len(problem.cluster.accelerators) < 2:
        return []
    more = copied_bytes(problem.graph)
    return [
        f"--copy-tied gives each reader of {name} a copy ({text.nbytes(sum(more.get(o, 0.0) for o in readers))} more),"
        " so that they need not share a device"
        for name, readers in tied(problem.graph).items()
    ]


def notes_of_model(problem: Problem, notes: Sequence[str]) -> list[str]:
    """What a trace notes of its model, as far as it holds: with copies, readers of tied parameters are free."""
    return [note for note in notes if not (problem.copy_tied and note.startswith("tied parameter: "))]


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
    if problem.plain is None or problem.copy_tied:
        return None
    regions = regions_of(problem.plain.graph)
    cached = sum(problem.plain.graph.operators[o].cached for o in regions.of)
    count = len(regions.members)
    again = f"{count} regions run their forward" if count > 1 else "1 region runs its forward"
    of_cached = f", and what {cached} of their {len(regions.of)} operators make," if cached else ""
    return f"{again} again before the backward: what comes in{of_cached} is kept for each micro-batch"


def _bytes_a_parameter(problem: Problem, precision: Precision) -> float:
    """Of 16 bits, whose states are not factored."""
    held = copies(problem.optimizer, precision)
    states = 0.0 if held.factored else held.states
    return 2.0 * (1.0 + held.gradients + held.masters + states)
