"""The actions of a rank's iterations: from the first call of each to its last, by the clock of the trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.costs.times.from_trace import seconds_of, times_of
from explorer.costs.times.trace_calls import parts_of
from explorer.costs.times.trace_events import Event, Seen, Trace
from explorer.measured.traces.passes import Iteration, Place
from solvers.plan.plan import Action, Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Problem

Span = tuple[float, float]
"""Start and end in microseconds."""


@dataclass(frozen=True, slots=True)
class TimedAction:
    """One action of one iteration. start_us, end_us: of its first and last call, or kernel where these ran on a GPU."""

    action: Action
    start_us: float
    end_us: float


def actions_of(problem: Problem, plan: Plan, device: int, iteration: Iteration, trace: Trace) -> list[TimedAction]:
    """What a rank did in an iteration, by start: a forward and a backward of every stage and micro-batch, and the
    update of every stage, among which the optimizer's steps divide as the bytes that their updates move."""
    pieces = sorted(_pieces(iteration, trace), key=lambda piece: piece[1])
    bursts: dict[tuple[int, str, int], list[Span]] = defaultdict(list)
    before: tuple[int, str, int] | None = None
    for key, (start, end) in pieces:
        if key == before:
            first, last = bursts[key][-1]
            bursts[key][-1] = first, max(last, end)
        else:
            bursts[key].append((start, end))
        before = key
    split = {action.stage for action in plan.order[device] if action.kind == "W"}
    actions = []
    for (stage, kind, micro_batch), spans in bursts.items():
        if kind == "B" and stage in split and len(spans) > 1:
            actions.append(TimedAction(Action(stage, "I", micro_batch), *spans[0]))
            actions.append(TimedAction(Action(stage, "W", micro_batch), spans[1][0], spans[-1][1]))
        else:
            actions.append(TimedAction(Action(stage, kind, micro_batch), spans[0][0], spans[-1][1]))
    actions += _updates(problem, plan, device, iteration, trace)
    return sorted(actions, key=lambda one: (one.start_us, one.end_us))


def _pieces(iteration: Iteration, trace: Trace) -> Iterator[tuple[tuple[int, str, int], Span]]:
    for place, seen in iteration.calls:
        if (span := _span(seen.forward, trace)) is not None:
            yield (place.stage, "F", place.micro_batch), span
        for node in seen.backward:
            if (span := _span(node, trace)) is not None:
                yield (place.stage, "B", place.micro_batch), span


def _span(event: Event, trace: Trace) -> Span | None:
    """When a call ran; None for one that started no kernel where kernels count."""
    return event.device_us if trace.on_device else (event.start_us, event.end_us)


def _updates(problem: Problem, plan: Plan, device: int, iteration: Iteration, trace: Trace) -> list[TimedAction]:
    """One after the other in what the optimizer's steps took, as they stand in the plan."""
    spans = [(mark.start_us, mark.end_us) for mark in iteration.optimizers]
    if trace.on_device:
        calls = [
            seen.forward
            for seen in trace.calls
            if any(start <= seen.forward.start_us < end for start, end in spans) and seen.forward.device_us is not None
        ]
        spans = [call.device_us for call in calls if call.device_us is not None]
    if not spans:
        return []
    start, end = min(span[0] for span in spans), max(span[1] for span in spans)
    operators = problem.graph.operators
    stages = [stage for stage, held in enumerate(plan.stages) if device in held.devices]
    moved = {
        stage: sum(
            operators[o].moved_bytes.at(1) for o in plan.stages[stage].operators if operators[o].phase is Phase.UPDATE
        )
        for stage in stages
    }
    whole = sum(moved.values())
    updates = []
    for stage in stages:
        if moved[stage] > 0:
            after = start + (end - start) * moved[stage] / whole
            updates.append(TimedAction(Action(stage, "U"), start, after))
            start, whole = after, whole - moved[stage]
    return updates


def operator_seconds(
    problem: Problem, iterations: Sequence[Iteration], trace: Trace, by_operator: dict[int, list[float]]
) -> None:
    """Adds to ``by_operator`` the seconds of every forward call and of what came of it in the backward."""
    mirrors: dict[tuple[int, Phase], int] = {
        (operator.forward_of, operator.phase): position
        for position, operator in enumerate(problem.graph.operators)
        if operator.forward_of is not None and operator.phase is not Phase.UPDATE
    }
    for iteration in iterations:
        for place, seen in iteration.calls:
            for phase, seconds in _by_phase(place, seen, trace, mirrors).items():
                position = place.operator if phase is Phase.FORWARD else mirrors.get((place.operator, phase))
                if position is not None and seconds > 0:
                    by_operator.setdefault(position, []).append(seconds)


def _by_phase(place: Place, seen: Seen, trace: Trace, mirrors: Mapping[tuple[int, Phase], int]) -> dict[Phase, float]:
    """Seconds of a call by phase: all of the backward where the graph has one operator for it, else as its arguments
    tell gradients of inputs and of parameters apart, else the forward alone."""
    own = [phase for phase in (Phase.BACKWARD_INPUT, Phase.BACKWARD_WEIGHT) if (place.operator, phase) in mirrors]
    parts = parts_of(seen.forward.name, seen.forward.args) if len(own) > 1 else None
    if parts is not None:
        return {call.of.phase: seconds for call, seconds in times_of(seen, parts, trace)}
    by_phase = {Phase.FORWARD: seconds_of(seen.forward, trace)}
    if len(own) == 1:
        by_phase[own[0]] = sum(seconds_of(node, trace) for node in seen.backward)
    return by_phase
