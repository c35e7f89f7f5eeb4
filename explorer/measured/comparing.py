"""Lays a run over its prediction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

from explorer.costs.interval import interval
from explorer.measured.action_times import SYNC, ActionTimes, action_times
from explorer.measured.all_reduce import settled
from explorer.measured.comparison import Comparison, DeviceError, LinkError, MeasuredSpan, OperatorError, SegmentError
from explorer.measured.links import measured_links
from explorer.measured.measured_problem import Seconds, fed_problem, measured_seconds
from explorer.measured.memory import peak_parts
from explorer.measured.notes import notes_of
from explorer.measured.parts import Part, parts_of
from explorer.measured.spans import measured_spans, predicted_action_s, typical_iteration
from explorer.runner.bundles.outcome import MeasuredAction, Outcome
from explorer.runner.scripts.with_engine import with_engine
from explorer.words import text
from solvers.errors import InvalidPlan, RunError
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule
from solvers.problem.cluster import Cluster
from solvers.problem.graph import Phase
from solvers.problem.problem import Objective, Problem

MOST_SIMULATED = 10
"""Iterations that are simulated each with its own times."""


def compare_run(problem: Problem, plan: Plan, outcome: Outcome) -> Comparison:
    """A run of ``plan`` beside its prediction under ``problem``, in four steps of which each differs from the one
    before in one thing:

    P0, as predicted, with the engine's own time where it was measured (`with_engine`); P1, simulated with the
    measured time of every action (`explorer.measured.measured_problem`); P2, with the measured links besides
    (`explorer.measured.links`); M, the median of the iterations measured. So
    P1 - P0 is what wrong operator costs make, P2 - P1 what wrong links make, and M - P2 what the schedule model
    does not know. Replicas are fed each with its own times; what is shown of a segment is their mean.

    Raises RunError, in one line, if the outcome holds no measured iteration, and InvalidPlan if it names
    segments, stages or devices that the plan does not have.
    """
    _check(problem, plan, outcome)
    outcome = settled(outcome)
    objective, stated = _objective(problem), problem
    problem = with_engine(stated, plan)
    predicted = simulate(problem, plan, objective, fold=False)
    parts = parts_of(problem, plan, outcome)
    times = action_times(outcome)
    seconds = measured_seconds(problem, parts, times)
    fed = fed_problem(problem, parts, seconds)
    with_operators = with_links = simulate(fed, plan, objective, fold=False)
    links: tuple[LinkError, ...] = ()
    odd: list[str] = []
    if problem.transfer_s is None:
        cluster, links, odd = measured_links(problem, plan, outcome, times)
        fed = replace(fed, cluster=replace(fed.cluster, links=cluster.links))
        with_links = simulate(fed, plan, objective, fold=False)
    number, drawn_s = typical_iteration(outcome)
    spans = measured_spans(problem, parts, predicted, outcome, number)
    devices = _devices(stated, plan, predicted, spans, outcome)
    busy = sum(device.busy_measured_s for device in devices)
    return Comparison(
        objective=objective,
        predicted_s=predicted.makespan_s,
        within=interval(problem, plan, predicted.makespan_s),
        operators_fed_s=with_operators.makespan_s,
        fed_s=with_links.makespan_s,
        measured_s=median(outcome.iterations_s),
        iterations_s=outcome.iterations_s,
        predicted=predicted,
        fed=with_links,
        spans=spans,
        drawn_s=drawn_s,
        segments=_segments(problem, parts, predicted, times, outcome),
        operators=_operators(stated, problem, plan, parts, seconds, outcome),
        links=links,
        devices=devices,
        bubble_predicted=_idle(sum(predicted.busy_per_device_s()), predicted.makespan_s * len(plan.devices_used())),
        bubble_measured=_idle(busy, drawn_s * len(devices)),
        fed_each_error=_fed_each_error(problem, plan, parts, outcome, fed.cluster),
        agreement=outcome.agreement,
        noise=outcome.noise,
        environment=outcome.environment,
        losses=outcome.losses,
        notes=(*notes_of(stated, plan, parts, times, links, outcome), *odd, *_engine_note(stated, problem, plan)),
    )


def _objective(problem: Problem) -> Objective:
    """What an iteration of a run is: one pass, where the plan is for that."""
    return Objective.MAKESPAN if problem.objective is Objective.MAKESPAN else Objective.ITERATION


def _engine_note(stated: Problem, problem: Problem, plan: Plan) -> list[str]:
    """What of the prediction is the engine's, if it was measured."""
    if problem is stated:
        return []
    without_s = simulate(stated, plan, _objective(stated)).makespan_s
    return [f"the prediction counts the engine's own time, as it was measured: {text.seconds(without_s)} without it"]


def _fed_each_error(problem: Problem, plan: Plan, parts: Sequence[Part], outcome: Outcome, cluster: Cluster) -> float:
    """See `Comparison.fed_each_error`; of many iterations some, evenly apart, are simulated."""
    by_iteration: dict[int, list[MeasuredAction]] = defaultdict(list)
    for action in outcome.actions:
        by_iteration[action.iteration].append(action)
    lengths = list(zip(sorted(by_iteration), outcome.iterations_s, strict=False))
    errors = []
    for number, measured_s in lengths[:: -(-len(lengths) // MOST_SIMULATED)]:
        times = action_times(replace(outcome, actions=tuple(by_iteration[number])))
        fed = fed_problem(problem, parts, measured_seconds(problem, parts, times))
        fed = replace(fed, cluster=replace(fed.cluster, links=cluster.links))
        errors.append(simulate(fed, plan, fed.objective).makespan_s / measured_s - 1)
    return median(errors)


def _check(problem: Problem, plan: Plan, outcome: Outcome) -> None:
    if not outcome.iterations_s or not outcome.actions:
        why = f": {outcome.reason}" if outcome.reason else ""
        raise RunError(f"the run ({outcome.status.value}) measured no iteration{why}; there is nothing to compare")
    if min(outcome.iterations_s) <= 0:
        raise RunError(f"the run measured an iteration of {min(outcome.iterations_s)} s; run it again")
    for rank, device in enumerate(outcome.rank_devices):
        if not 0 <= device < len(problem.cluster):
            raise InvalidPlan(
                f"rank {rank} of the run is device {device}, but there are {len(problem.cluster)}; the run is of"
                " another plan"
            )
    ranks = len(outcome.rank_devices)
    for message in outcome.messages:
        if not (0 <= message.src_rank < ranks and 0 <= message.dst_rank < ranks):
            raise InvalidPlan(f"the run measured a message of rank {message.src_rank}, but has {ranks} ranks")
    for stage in plan.stages:
        if missing := set(stage.devices) - set(outcome.rank_devices):
            raise InvalidPlan(f"device {min(missing)} of the plan has no rank in the run; the run is of another plan")


def _idle(busy_s: float, whole_s: float) -> float:
    return max(0.0, 1.0 - busy_s / whole_s) if whole_s > 0 else 0.0


def _devices(
    problem: Problem, plan: Plan, predicted: Schedule, spans: Sequence[MeasuredSpan], outcome: Outcome
) -> tuple[DeviceError, ...]:
    """Every device that ran, by position; an all-reduce is no compute."""
    busy, waited = defaultdict[int, float](float), defaultdict[int, float](float)
    for span in spans:
        waited[span.device] += span.wait_s
        if span.kind != SYNC:
            busy[span.device] += span.end_s - span.start_s
    expected, peaks = predicted.busy_per_device_s(), predicted.peak_bytes()
    parts = peak_parts(problem, plan, peaks, outcome)
    return tuple(
        DeviceError(
            device,
            rank,
            expected[device],
            busy[device],
            waited[device],
            peaks[device],
            outcome.peak_bytes[rank] if rank < len(outcome.peak_bytes) else None,
            parts.get(device, ()),
        )
        for device, rank in sorted((device, rank) for rank, device in enumerate(outcome.rank_devices))
    )


def _segments(
    problem: Problem, parts: Sequence[Part], predicted: Schedule, times: ActionTimes, outcome: Outcome
) -> tuple[SegmentError, ...]:
    """Every segment and kind of action, in the order of a step: F, B, I, W, S, U."""
    part_of = {part.segments[0]: part for part in parts if len(part.segments) == 1}
    devices: dict[tuple[int, str], list[int]] = defaultdict(list)
    for segment, kind, device in sorted(times.seconds):
        devices[segment, kind].append(device)
    errors = []
    for segment, kind in sorted(devices, key=lambda key: (key[0], "FBIWSU".index(key[1]))):
        on = devices[segment, kind]
        stages = outcome.segments[segment]
        expected = [predicted_action_s(problem, part_of.get(segment), stages, predicted, kind, d) for d in on]
        known = [value for value in expected if value is not None]
        measured = times.sync_s[segment] if kind == SYNC else fmean(times.seconds[segment, kind, d] for d in on)
        errors.append(SegmentError(segment, stages, tuple(on), kind, measured, fmean(known) if known else None))
    return tuple(errors)


def _operators(
    stated: Problem, problem: Problem, plan: Plan, parts: Sequence[Part], seconds: Seconds, outcome: Outcome
) -> tuple[OperatorError | None, ...]:
    """The mean over the devices of every operator; a profile's word counts more than a share of a segment. What an
    operator takes by itself is set against the ``stated`` costs, its share of a segment against those with the
    engine's time."""
    graph = problem.graph
    errors: list[OperatorError | None] = [None] * len(graph)
    placement = plan.placement()
    for part in parts:
        for o in part.operators:
            update = graph.operators[o].phase is Phase.UPDATE
            samples = part.update_samples if update else part.samples
            on = [d for d in placement[o] if (d, o) in seconds]
            profiled = graph.operators[o].name in outcome.operators_s
            if not on and not profiled:
                continue
            costs = stated if profiled else problem
            kinds = [costs.cluster.devices[d].kind for d in on or placement[o]]
            predicted_s = fmean(float(costs.compute.at(kind, samples)[o]) for kind in kinds)
            measured_s = outcome.operators_s[graph.operators[o].name] if profiled else fmean(seconds[d, o] for d in on)
            runs = 1 if update else part.runs * (1 + (o in part.again))
            errors[o] = OperatorError(predicted_s, measured_s, runs, profiled)
    return tuple(errors)
