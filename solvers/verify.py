"""An independent reading of the rules: does this plan, and the schedule simulated from it, hold?

Shares no code with `evaluate` and `simulate` beyond the types: rules are told a second time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

from solvers.errors import PlacementError
from solvers.graph import Operator, Phase
from solvers.plan import Plan
from solvers.problem import Contiguity, Execution, Objective, Pipeline, Problem, Transfers
from solvers.schedule import Schedule, Span

SLACK = 1e-6
"""Relative slack for times: sums of many floats in another order."""

_LETTER = {Phase.FORWARD: "F", Phase.BACKWARD_INPUT: "B", Phase.BACKWARD_WEIGHT: "B", Phase.UPDATE: "U"}


def verify(problem: Problem, plan: Plan) -> tuple[str, ...]:
    """Every rule the plan breaks, a sentence each; empty if it is a valid plan that fits."""
    found = _structure(problem, plan)
    if found:
        return tuple(found)
    found = _contiguity(problem, plan)
    from solvers.evaluation.simulation import simulate  # the schedule is what is checked, not how it came about

    objective = Objective.ITERATION if problem.objective is Objective.MAX_LOAD else problem.objective
    try:
        schedule = simulate(problem, plan, objective)
    except PlacementError as error:
        return (*found, str(error))
    return (*found, *verify_schedule(problem, plan, schedule, objective))


def _structure(problem: Problem, plan: Plan) -> list[str]:
    operators = problem.graph.operators
    devices = problem.cluster.devices
    found = []
    if len(plan.order) != len(devices):
        return [f"the order has {len(plan.order)} devices, the cluster {len(devices)}"]
    times: dict[int, int] = defaultdict(int)
    places: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    seconds = {kind: problem.compute.at(kind, 1).tolist() for kind in {device.kind for device in devices}}
    for index, stage in enumerate(plan.stages):
        for device in stage.devices:
            if not 0 <= device < len(devices):
                return [f"stage {index} is on device {device}, but there are {len(devices)} devices"]
        for number in stage.operators:
            if not 0 <= number < len(operators):
                return [f"stage {index} has operator {number}, but there are {len(operators)} operators"]
            times[number] += 1
            places[number].append(stage.devices)
            for device in stage.devices:
                kind = devices[device].kind
                if math.isinf(seconds[kind][number]):
                    found.append(f"operator {operators[number].name!r} cannot run on device {device} ({kind})")
    for position, operator in enumerate(operators):
        if times[position] == 0:
            found.append(f"operator {operator.name!r} is in no stage")
        elif times[position] > 1 and not operator.replicable:
            found.append(f"operator {operator.name!r} is in {times[position]} stages")
        elif operator.forward_of is not None and places[position] != places[operator.forward_of]:
            found.append(f"operator {operator.name!r} is not with its forward operator")
    together: dict[str, tuple[tuple[int, ...], str]] = {}
    for position, operator in enumerate(operators):
        if operator.colocation is not None and places[position]:
            first = together.setdefault(operator.colocation, (places[position][0], operator.name))
            if first[0] != places[position][0]:
                found.append(f"operators {first[1]!r} and {operator.name!r} must share a device")
    for position, device in problem.pins.items():
        if places[position] != [(device,)]:
            found.append(f"operator {operators[position].name!r} is pinned to device {device}")
    if not problem.mixed_micro_batches and len({stage.micro_batch_size for stage in plan.stages}) > 1:
        found.append("stages differ in the size of their micro-batches, which is not allowed")
    subgraphs: dict[int, int] = defaultdict(int)
    for index, stage in enumerate(plan.stages):
        if problem.mini_batch % stage.micro_batch_size:
            found.append(f"stage {index}: {stage.micro_batch_size} samples do not divide the mini-batch")
        if stage.recompute and not problem.recompute:
            found.append(f"stage {index} recomputes its forward, which is not allowed")
        per_sample = len(problem.compute.samples) == 1
        if stage.micro_batch_size % len(stage.devices) and not per_sample:
            found.append(f"stage {index}: its replicas would have to split a sample")
        if len(stage.devices) > problem.max_replicas:
            found.append(f"stage {index} has {len(stage.devices)} replicas, {problem.max_replicas} are allowed")
        for device in stage.devices:
            subgraphs[device] += 1
    if problem.objective is Objective.MAKESPAN and problem.execution is Execution.CALL:
        for device, count in subgraphs.items():
            if not devices[device].is_cpu and count > (problem.subgraphs_per_device or count):
                found.append(f"device {device} has {count} subgraphs, {problem.subgraphs_per_device} are allowed")
    return found


def _contiguity(problem: Problem, plan: Plan) -> list[str]:
    single_pass = problem.objective is Objective.MAKESPAN and problem.execution is Execution.CALL
    if problem.contiguity is Contiguity.NONE or single_pass:
        return []
    graph = nx.DiGraph()
    operators = problem.graph.operators
    place = {o: stage.devices for stage in plan.stages for o in stage.operators if not operators[o].replicable}
    groups = {o.colocation for o in operators if o.phase is Phase.FORWARD}
    for tensor in problem.graph.tensors:
        for reader in tensor.consumers:
            pair = (operators[tensor.producer], operators[reader])
            if all(o.phase is Phase.FORWARD for o in pair):
                graph.add_edge(tensor.producer, reader)
            elif pair[0].phase is not Phase.FORWARD and any(_without_forward(o, groups) for o in pair):
                graph.add_edge(reader, tensor.producer)  # its artificial forward operator's, the other way
    if problem.pipeline is Pipeline.INTERLEAVED:  # asked of every stage by itself
        numbers = range(len(plan.stages))
        place = {o: (n,) for n in numbers for o in plan.stages[n].operators if not operators[o].replicable}
    if problem.contiguity is Contiguity.ACYCLIC:
        quotient = nx.DiGraph()
        for a, b in graph.edges:
            if a in place and b in place and place[a] != place[b]:
                quotient.add_edge(place[a], place[b])
        return [] if nx.is_directed_acyclic_graph(quotient) else ["the devices' sets of operators are not acyclic"]
    for group in set(place.values()):
        inside = {o for o, p in place.items() if p == group}
        outside = {v for u in inside if u in graph for v in graph.successors(u)} - inside
        reached = set(outside)
        for v in outside:
            reached |= nx.descendants(graph, v)
        if reached & inside:
            return [f"the operators of {list(group)} are not convex"]
    return []


def _without_forward(operator: Operator, groups: set[str | None]) -> bool:
    """Whether nothing in the forward graph stands for an operator."""
    return operator.forward_of is None and (operator.colocation is None or operator.colocation not in groups)


def verify_schedule(problem: Problem, plan: Plan, schedule: Schedule, objective: Objective) -> list[str]:
    """Rules a schedule breaks: overlaps, wrong durations, inputs not there, memory over the cap."""
    found = _overlaps(schedule)
    compute = _compute_spans(problem, plan, schedule, objective)
    found += _durations(problem, plan, compute, objective)
    found += _arrivals(problem, plan, compute, objective)
    for device, (curve, spec) in enumerate(zip(schedule.memory, problem.cluster.devices, strict=True)):
        floor = _least_memory(problem, plan, compute, device, objective)
        if floor > curve.peak_bytes * (1 + SLACK) + 1:
            found.append(f"device {device}: the memory curve peaks below the {floor:.0f} bytes held at once")
        if curve.peak_bytes > spec.memory_bytes * (1 + SLACK):
            found.append(f"device {device}: peak of {curve.peak_bytes:.0f} bytes exceeds {spec.memory_bytes:.0f}")
    return found


Key = tuple[int, str, int, int, int]
"""(stage, letter, micro-batch, device, operator or -1)."""


def _compute_spans(problem: Problem, plan: Plan, schedule: Schedule, objective: Objective) -> dict[Key, Span]:
    spans: dict[Key, Span] = {}
    for span in schedule.spans:
        if not span.is_transfer:
            stage, letter, rest = _read(span.action)
            spans[stage, letter, rest, span.device, span.operator] = span
    return spans


def _read(action: str) -> tuple[int, str, int]:
    digits = 0
    while action[digits].isdigit():
        digits += 1
    return int(action[:digits]), action[digits], int(action[digits + 1 :] or 0)


def _overlaps(schedule: Schedule) -> list[str]:
    by_resource: dict[str, list[Span]] = defaultdict(list)
    for span in schedule.spans:
        if span.resource not in schedule.shared:
            by_resource[span.resource].append(span)
    found = []
    for resource, spans in by_resource.items():
        spans.sort(key=lambda s: (s.start_s, s.end_s))
        for a, b in pairwise(spans):
            if b.start_s < a.end_s - SLACK * max(a.end_s, 1e-9):
                found.append(f"{resource}: {a.action} and {b.action} overlap")
    return found


def _samples(problem: Problem, plan: Plan, stage: int, letter: str, objective: Objective) -> int:
    if letter == "U" or objective is Objective.MAKESPAN:
        return problem.mini_batch
    return plan.stages[stage].micro_batch_size


def _durations(problem: Problem, plan: Plan, compute: dict[Key, Span], objective: Objective) -> list[str]:
    found = []
    call = problem.execution is Execution.CALL and objective is Objective.MAKESPAN
    known: dict[tuple[int, str, int, int], float] = {}
    tables: dict[tuple[str, float], list[float]] = {}
    again = _runs_again(problem, plan, compute)
    for (stage, letter, _, device, operator), span in compute.items():
        same = (stage, letter, device, operator)
        if same not in known:
            samples = _samples(problem, plan, stage, letter, objective) / len(plan.stages[stage].devices)
            kind = problem.cluster.devices[device].kind
            if (kind, samples) not in tables:
                tables[kind, samples] = problem.compute.at(kind, samples).tolist()
            seconds = tables[kind, samples]
            members = [operator] if operator >= 0 else plan.stages[stage].operators
            phases = [problem.graph.operators[member].phase for member in members]
            known[same] = math.fsum(
                seconds[m] for m, phase in zip(members, phases, strict=True) if _runs_in(phase, letter)
            )
            if same in again:
                known[same] += math.fsum(
                    seconds[m]
                    for m in plan.stages[stage].operators
                    if problem.graph.operators[m].phase is Phase.FORWARD
                )
        expected = known[same]
        took = span.end_s - span.start_s
        if took < expected * (1 - SLACK) - 1e-12 or (not call and took > expected * (1 + SLACK) + 1e-12):
            found.append(f"{span.action} takes {took} s on device {device}, expected {expected} s")
    return found


def _runs_again(problem: Problem, plan: Plan, compute: dict[Key, Span]) -> set[tuple[int, str, int, int]]:
    """(stage, letter, device, operator) of the spans in which a stage runs its forward a second time: the
    first of its backward."""
    again = set()
    letters: dict[int, set[str]] = defaultdict(set)
    for stage, letter, _, _, _ in compute:
        letters[stage].add(letter)
    for stage, letter, _, device, operator in compute:
        starts = letter in "BI" or (letter == "W" and "I" not in letters[stage])
        if not plan.stages[stage].recompute or not starts:
            continue
        mine = [o for o in plan.stages[stage].operators if _runs_in(problem.graph.operators[o].phase, letter)]
        if operator in (-1, mine[0]):
            again.add((stage, letter, device, operator))
    return again


@dataclass(frozen=True, slots=True)
class _Run:
    """One execution of some operators: which samples, on which device, and when."""

    low: float
    high: float
    span: Span


def _arrivals(problem: Problem, plan: Plan, compute: dict[Key, Span], objective: Objective) -> list[str]:
    """Every reader starts after its producer ended and, from another device, the transfer's time."""
    runs: dict[tuple[int, str, int], list[_Run]] = defaultdict(list)
    for (stage, letter, j, device, operator), span in compute.items():
        b = _samples(problem, plan, stage, letter, objective)
        replicas = plan.stages[stage].devices
        share = b / len(replicas)
        low = j * b + replicas.index(device) * share
        runs[stage, letter, operator].append(_Run(low, low + share, span))
    for found_runs in runs.values():
        found_runs.sort(key=lambda run: run.low)
    where = _whereabouts(problem, plan, runs)
    found: list[str] = []
    for pair, tensors in _readings(problem, where).items():
        sources = [run for key in pair[0] for run in runs[key]]
        for run in runs[pair[1]]:
            found += _late(problem, sources, run, tensors)
            if len(found) > 5:
                return found
    return found


def _whereabouts(
    problem: Problem, plan: Plan, runs: dict[tuple[int, str, int], list[_Run]]
) -> dict[int, list[tuple[int, str, int]]]:
    """For every operator the keys of ``runs`` that execute it."""
    where: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    for stage, letter, operator in runs:
        for member in [operator] if operator >= 0 else plan.stages[stage].operators:
            if _runs_in(problem.graph.operators[member].phase, letter):
                where[member].append((stage, letter, operator))
    return where


def _runs_in(phase: Phase, letter: str) -> bool:
    split = (letter == "I" and phase is Phase.BACKWARD_INPUT) or (letter == "W" and phase is Phase.BACKWARD_WEIGHT)
    return split or _LETTER[phase] == letter


Reading = tuple[tuple[tuple[int, str, int], ...], tuple[int, str, int]]


def _readings(problem: Problem, where: dict[int, list[tuple[int, str, int]]]) -> dict[Reading, set[int]]:
    """Producers' runs and reader's run -> the tensors between them, one of each size."""
    found: dict[Reading, dict[object, int]] = defaultdict(dict)
    for number, tensor in enumerate(problem.graph.tensors):
        size = tensor.nbytes if problem.transfer_s is None else problem.transfer_s[number]
        sources = tuple(where[tensor.producer])
        for reader in tensor.consumers:
            for key in where[reader]:
                if sources != (key,):
                    found[sources, key].setdefault(size, number)
    return {pair: set(tensors.values()) for pair, tensors in found.items()}


def _late(problem: Problem, sources: list[_Run], run: _Run, tensors: set[int]) -> list[str]:
    low, high, span = run.low + 1e-6, run.high - 1e-6, run.span
    makers = [s for s in sources if s.low < high and s.high > low and s.span is not span]
    near = [s for s in makers if s.span.device == span.device]
    found = []
    for source in near or makers:
        least = 0.0
        if source.span.device != span.device and problem.transfers is Transfers.LINKS:
            shared = min(source.high, run.high) - max(source.low, run.low)
            least = max(problem.tensor_s(t, shared, source.span.device, span.device) for t in tensors)
        if span.start_s < source.span.end_s + least - SLACK * max(span.start_s, 1e-9):
            found.append(
                f"{span.action} on device {span.device} starts at {span.start_s} s, before what {source.span.action}"
                f" makes can be there ({source.span.end_s + least} s)"
            )
    return found


def _least_memory(problem: Problem, plan: Plan, compute: dict[Key, Span], device: int, objective: Objective) -> float:
    """Static bytes and saved activations a device holds at least, at the worst instant."""
    static = problem.static_bytes()
    total = sum(float(static[o]) for stage in plan.stages if device in stage.devices for o in stage.operators)
    if problem.stated_bytes is not None or not problem.has_backward():
        return total
    changes: list[tuple[float, float]] = []
    known: dict[int, float] = {}
    for (stage, letter, j, at, operator), span in compute.items():
        if letter != "F" or at != device or operator >= 0:
            continue
        if stage not in known:
            samples = _samples(problem, plan, stage, letter, objective) / len(plan.stages[stage].devices)
            amounts = [problem.graph.operators[o].saved_bytes for o in plan.stages[stage].operators]
            known[stage] = sum(amount.fixed + amount.per_sample * samples for amount in amounts)
        held = known[stage]
        spans = [s for kind in "BIW" if (s := compute.get((stage, kind, j, at, -1))) is not None]
        since = min((s.start_s for s in spans), default=span.start_s) if plan.stages[stage].recompute else span.start_s
        changes += [(since, held), (max((s.end_s for s in spans), default=span.end_s), -held)]
    peak = level = 0.0
    for _, change in sorted(changes):
        level += change
        peak = max(peak, level)
    return total + peak
