"""Runs made up from simulations: what a machine would measure on which the schedule model is exact."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.runner.bundles.outcome import MeasuredAction, MeasuredMessage, Outcome, RunStatus
from solvers.evaluation.simulation import simulate
from solvers.plan.plan import Plan, parse_action
from solvers.plan.schedule import Schedule
from solvers.problem.graph import Phase
from solvers.problem.problem import ComputeTable, Objective, Problem

PHASE_KIND = {
    Phase.FORWARD: "F",
    Phase.BACKWARD_INPUT: "I",
    Phase.BACKWARD_WEIGHT: "W",
    Phase.UPDATE: "U",
}


def slowed(
    problem: Problem, compute: Mapping[tuple[int, int], float], links: Mapping[tuple[int, int], float]
) -> Problem:
    """The problem with operators that take as many times as long, by (device, operator), and links too, by
    (from, to); what is not named stays. Every accelerator has a kind of its own."""
    cluster = problem.cluster
    kinds = [d.kind if d.is_cpu else f"slow {i}" for i, d in enumerate(cluster.devices)]
    tables = {}
    for i, device in enumerate(cluster.devices):
        table = problem.compute.seconds[device.kind].copy()
        for (d, o), factor in compute.items():
            if d == i:
                table[o] *= factor
        tables[kinds[i]] = table
    changed = tuple(
        replace(
            link,
            latency_s=link.latency_s * links.get((link.src, link.dst), 1.0),
            bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / links.get((link.src, link.dst), 1.0),
        )
        for link in cluster.links
    )
    devices = tuple(replace(d, kind=kind) for d, kind in zip(cluster.devices, kinds, strict=True))
    return replace(
        problem,
        cluster=replace(cluster, devices=devices, links=changed),
        compute=ComputeTable(problem.compute.samples, tables),
    )


def run_of(
    problem: Problem,
    plan: Plan,
    segments: Sequence[Sequence[int]] | None = None,
    operators: Sequence[Sequence[int]] | None = None,
    more_s: float = 0.0,
    seed: int = 0,
) -> Outcome:
    """The outcome of a run that goes exactly as ``problem`` is simulated, plus more_s at the end.

    segments: stages of each, by default one each. operators: of a pass of single operators, those of each
    segment. Messages that follow another one on their wire are posted at some moment before that ends.
    """
    objective = Objective.MAKESPAN if problem.objective is Objective.MAKESPAN else Objective.ITERATION
    schedule = simulate(problem, plan, objective)
    joined = tuple(map(tuple, segments)) if segments is not None else tuple((i,) for i in range(len(plan.stages)))
    devices = plan.devices_used()
    rank = {device: i for i, device in enumerate(devices)}
    return Outcome(
        RunStatus.DONE,
        iterations_s=(schedule.makespan_s + more_s,),
        actions=_actions(problem, schedule, joined, operators, rank),
        messages=_messages(schedule, rank, random.Random(seed)),
        segments=joined,
        rank_devices=devices,
        peak_bytes=tuple(schedule.peak_bytes()[d] for d in devices),
    )


def _actions(
    problem: Problem,
    schedule: Schedule,
    segments: tuple[tuple[int, ...], ...],
    operators: Sequence[Sequence[int]] | None,
    rank: Mapping[int, int],
) -> tuple[MeasuredAction, ...]:
    of_stage = {stage: i for i, stages in enumerate(segments) for stage in stages}
    of_operator = {o: i for i, held in enumerate(operators or ()) for o in held}
    spans: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    rings: dict[str, list[tuple[float, float]]] = defaultdict(list)
    taking_part: dict[str, set[int]] = defaultdict(set)
    for span in schedule.spans:
        if span.is_transfer:
            if "S>" in span.action:
                name = f"{of_stage[int(span.action.partition('S')[0])]}S"
                rings[name].append((span.start_s, span.end_s))
                taking_part[name].add(span.device)
            continue
        action = parse_action(span.action)
        kind, segment = action.kind, of_stage[action.stage]
        if operators is not None:
            segment = of_operator[span.operator]
            kind = PHASE_KIND[problem.graph.operators[span.operator].phase]
        number = "" if kind == "U" else str(action.micro_batch)
        spans[span.device, f"{segment}{kind}{number}"].append((span.start_s, span.end_s))
    for name, parts in rings.items():  # all are done when the slowest link of the ring is
        start, end = max(parts, key=lambda part: part[1] - part[0])
        spans.update({(device, name): [(start, end)] for device in taking_part[name]})
    actions = []
    for (device, name), parts in spans.items():
        end = max(b for _, b in parts)
        actions.append(MeasuredAction(rank[device], 0, name, end - sum(b - a for a, b in parts), end))
    return tuple(actions)


def _messages(schedule: Schedule, rank: Mapping[int, int], rng: random.Random) -> tuple[MeasuredMessage, ...]:
    messages = []
    before: dict[str, tuple[float, float]] = {}
    for span in schedule.spans:
        if not span.is_transfer or "S>" in span.action:
            continue
        start, end = before.get(span.resource, (0.0, -1.0))
        sent = rng.uniform(start, end) if end == span.start_s else span.start_s
        before[span.resource] = (span.start_s, span.end_s)
        messages.append(
            MeasuredMessage(
                len(messages), 0, rank[span.device], rank[span.to_device], 0, span.action.partition(">")[0],
                round(span.nbytes), sent, span.end_s, True,
            )
        )  # fmt: skip
    return tuple(messages)
