"""What a reader must know before believing a comparison."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from explorer.measured.action_times import ActionTimes
from explorer.measured.comparison import LinkError
from explorer.measured.parts import Part
from explorer.runner.bundles.outcome import NOISY, Outcome, RunStatus
from explorer.words import text
from solvers.plan.plan import Plan
from solvers.problem.problem import Objective, Problem

FEW = 3
"""With fewer iterations a median is no protection against one that went wrong."""


def notes_of(
    problem: Problem,
    plan: Plan,
    parts: Sequence[Part],
    times: ActionTimes,
    links: Sequence[LinkError],
    outcome: Outcome,
) -> list[str]:
    """Sentences without a full stop, the weightiest first, the run's own last."""
    notes = [note for note in (_other_hardware_words(problem, outcome), _ended(outcome)) if note]
    if outcome.noise is not None and outcome.noise > NOISY:
        notes.append(
            f"the machine was noisy: a fixed piece of work varied by {text.percent(outcome.noise)}; run it again when"
            " it is quiet"
        )
    if len(outcome.iterations_s) < FEW:
        notes.append(f"only {text.plural(len(outcome.iterations_s), 'iteration')} measured; ask for more steps")
    if problem.transfer_s is not None:
        notes.append("transfers take what the workload states, so no error is put down to links")
    deaf = [link for link in links if link.messages and not link.how]
    if deaf:
        notes.append(
            f"{text.plural(len(deaf), 'link')} of {len(links)} kept the plan's speed: no reader had to wait for their"
            " messages, so nobody knows when these arrived"
        )
    if problem.objective is not Objective.MAKESPAN:  # in a single pass nothing is lost by it
        notes += _backwards(plan, parts, times)
    if any(len(part.segments) > 1 for part in parts):
        notes.append("which operators some segments had is not known: stages that they share are taken together")
    return notes + list(outcome.notes)


def _other_hardware_words(problem: Problem, outcome: Outcome) -> str:
    other = other_hardware(problem, outcome)
    if other is None:
        return ""
    return (
        f"the costs are of other hardware ({problem.costs_from}) than the run's ({other[1]}): the errors of"
        " operators and links tell how the two differ, only that of the schedule judges the model"
    )


def other_hardware(problem: Problem, outcome: Outcome) -> tuple[str, str] | None:
    """(the kind of device that the costs are of, the hardware of the run) where they differ, of the first such rank."""
    if outcome.environment is None:
        return None
    for rank, device in enumerate(outcome.rank_devices):
        if rank >= len(outcome.environment.devices):
            break
        kind, ran = problem.cluster.devices[device].kind, outcome.environment.devices[rank]
        if not same_hardware(kind, ran, problem.costs_from, outcome.environment.backend):
            return kind, ran
    return None


def same_hardware(kind: str, ran: str, costs_from: str, backend: str) -> bool:
    """Whether costs of a device ``kind`` ("H100-80GB", "cpu", "measured-...") with the label ``costs_from`` are
    those of the hardware called ``ran``. A kind that names no hardware ("given", a file's own) is believed."""
    ran = _plain(ran)
    if ran and ran in _plain(costs_from):
        return True
    if kind == "cpu":
        return backend == "gloo" and "roofline" not in costs_from
    model = re.match(r"(?i)(v100|a100|h100|h200|l4)\b", kind)
    if model:
        return re.search(rf"\b{model[1].lower()}\b", ran) is not None
    measured = kind.removeprefix("measured-")
    return measured == kind or _plain(measured)[:60] == ran[:60]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", " ", name.lower()).strip()


def _ended(outcome: Outcome) -> str:
    if outcome.status is RunStatus.DONE:
        return ""
    return f"the run did not end well ({outcome.status.value}{': ' + outcome.reason if outcome.reason else ''})"


def _backwards(plan: Plan, parts: Sequence[Part], times: ActionTimes) -> list[str]:
    """Stages whose gradients of inputs and of parameters are apart in the plan, and ran in one piece."""
    planned = {
        action.stage
        for actions in plan.order
        for before, action in pairwise(actions)
        if action.kind == "W" and before != replace(action, kind="I")
    }
    ran = {(segment, kind) for segment, kind, _ in times.seconds}
    whole = [
        part
        for part in parts
        if any(stage in planned for stage in part.stages)
        and not any((segment, "W") in ran for segment in part.segments)
        and any((segment, "B") in ran for segment in part.segments)
    ]
    if not whole:
        return []
    stages = text.plural(sum(len(part.stages) for part in whole), "stage")
    return [f"{stages} ran gradients of inputs and of parameters in one piece, which the plan has apart"]
