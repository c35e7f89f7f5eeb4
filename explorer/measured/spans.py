"""The measured iteration that is drawn, action by action."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from explorer.measured.action_times import SYNC, iteration_numbers, step_of
from explorer.measured.comparison import MeasuredSpan
from explorer.measured.parts import Part
from explorer.runner.bundles.outcome import Outcome
from solvers.plan.schedule import Schedule
from solvers.problem.problem import Problem


def typical_iteration(outcome: Outcome) -> tuple[int, float]:
    """(number, seconds) of the iteration whose length is nearest to the median, of those with actions; the
    shorter one of two that are as near."""
    middle = median(outcome.iterations_s)
    numbers = iteration_numbers(outcome.actions)
    lengths = list(zip(numbers, outcome.iterations_s, strict=False))
    return min(lengths, key=lambda length: (abs(length[1] - middle), length[1], length[0]))


def measured_spans(
    problem: Problem, parts: Sequence[Part], predicted: Schedule, outcome: Outcome, iteration: int
) -> tuple[MeasuredSpan, ...]:
    """The actions of one iteration by start, each with what the problem's costs say it takes."""
    part_of = {part.segments[0]: part for part in parts if len(part.segments) == 1}
    expected: dict[tuple[int, str, int], float | None] = {}
    spans = []
    for action in outcome.actions:
        if action.iteration != iteration:
            continue
        step, device = step_of(action, outcome)
        key = (step.index, step.do.value, device)
        stages = outcome.segments[step.index]
        if key not in expected:
            expected[key] = predicted_action_s(problem, part_of.get(step.index), stages, predicted, key[1], device)
        once = key[1] in (SYNC, "U")
        spans.append(
            MeasuredSpan(
                action.action, step.index, stages, key[1], -1 if once else step.number, device,
                action.start_s, action.end_s, action.wait_s, expected[key],
            )
        )  # fmt: skip
    return tuple(sorted(spans, key=lambda span: (span.start_s, span.device, span.end_s)))


def predicted_action_s(
    problem: Problem, part: Part | None, stages: tuple[int, ...], predicted: Schedule, kind: str, device: int
) -> float | None:
    """What an action of a segment takes by the problem's costs; None where the plan has nothing of the kind, or
    nobody knows which operators the segment had. Of an all-reduce: what the device's transfers of it take."""
    if kind == SYNC:
        names = {f"{stage}S" for stage in stages}
        took = [
            span.end_s - span.start_s
            for span in predicted.spans
            if span.is_transfer and span.device == device and span.action.partition(">")[0] in names
        ]
        return sum(took) if took else None
    if part is None or not part.of(problem, kind):
        return None
    return part.predicted_s(problem, kind, device)
