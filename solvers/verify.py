"""An independent reading of the rules: does this plan, and the schedule simulated from it, hold?

Shares no code with `evaluate` and `simulate` beyond the types: rules are told a second time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

import networkx as nx

from solvers.errors import PlacementError
from solvers.graph import Phase
from solvers.plan import Plan
from solvers.problem import Contiguity, Execution, Objective, Problem, Transfers
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
    from solvers.simulate import simulate  # the schedule is what is checked, not how it came about

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
                if math.isinf(problem.compute.at(kind, 1)[number]):
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
    for index, stage in enumerate(plan.stages):
        if problem.mini_batch % stage.micro_batch_size:
            found.append(f"stage {index}: {stage.micro_batch_size} samples do not divide the mini-batch")
    return found


def _contiguity(problem: Problem, plan: Plan) -> list[str]:
    if problem.contiguity is Contiguity.NONE:
        return []
    graph = nx.DiGraph()
    operators = problem.graph.operators
    place = {o: stage.devices for stage in plan.stages for o in stage.operators if not operators[o].replicable}
    for tensor in problem.graph.tensors:
        for reader in tensor.consumers:
            if operators[tensor.producer].phase is Phase.FORWARD and operators[reader].phase is Phase.FORWARD:
                graph.add_edge(tensor.producer, reader)
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
    for (stage, letter, _, device, operator), span in compute.items():
        samples = _samples(problem, plan, stage, letter, objective) / len(plan.stages[stage].devices)
        seconds = problem.compute.at(problem.cluster.devices[device].kind, samples)
        members = [operator] if operator >= 0 else plan.stages[stage].operators
        expected = 0.0
        for member in members:
            own = _LETTER[problem.graph.operators[member].phase]
            phase = problem.graph.operators[member].phase
            split = (letter == "I" and phase is Phase.BACKWARD_INPUT) or (
                letter == "W" and phase is Phase.BACKWARD_WEIGHT
            )
            if own == letter or split:
                expected += float(seconds[member])
        took = span.end_s - span.start_s
        if took < expected * (1 - SLACK) - 1e-12 or (not call and took > expected * (1 + SLACK) + 1e-12):
            found.append(f"{span.action} takes {took} s on device {device}, expected {expected} s")
    return found


def _arrivals(problem: Problem, plan: Plan, compute: dict[Key, Span], objective: Objective) -> list[str]:
    """Every reader starts after its producer ended and, from another device, the transfer's time."""
    graph = problem.graph
    runs: dict[int, list[tuple[int, int, Span]]] = defaultdict(list)  # operator -> (first sample, last, span)
    members = [set(stage.operators) for stage in plan.stages]
    for (stage, letter, j, device, operator), span in compute.items():
        b = _samples(problem, plan, stage, letter, objective)
        replicas = plan.stages[stage].devices
        share = b / len(replicas)
        low = j * b + replicas.index(device) * share
        inside = [operator] if operator >= 0 else members[stage]
        for member in inside:
            phase = graph.operators[member].phase
            if _LETTER[phase] == letter or (letter, phase) in (
                ("I", Phase.BACKWARD_INPUT),
                ("W", Phase.BACKWARD_WEIGHT),
            ):
                runs[member].append((round(low * 1e6), round((low + share) * 1e6), span))
    found: list[str] = []
    for number, tensor in enumerate(graph.tensors):
        for reader in tensor.consumers:
            for low, high, span in runs[reader]:
                near = [s for a, b, s in runs[tensor.producer] if a < high and b > low and s.device == span.device]
                for a, b, source in runs[tensor.producer]:
                    if source is span or a >= high or b <= low or (near and source.device != span.device):
                        continue
                    if source.device == span.device:
                        least = 0.0
                    elif problem.transfers is Transfers.LINKS:
                        shared = (min(b, high) - max(a, low)) / 1e6
                        least = problem.tensor_s(number, shared, source.device, span.device)
                    else:
                        least = 0.0
                    if span.start_s < source.end_s + least - SLACK * max(span.start_s, 1e-9):
                        found.append(
                            f"{span.action} on device {span.device} starts at {span.start_s} s, before tensor"
                            f" {number} of {source.action} can be there ({source.end_s + least} s)"
                        )
                        if len(found) > 5:
                            return found
    return found


def _least_memory(problem: Problem, plan: Plan, compute: dict[Key, Span], device: int, objective: Objective) -> float:
    """Static bytes and saved activations a device holds at least, at the worst instant."""
    static = problem.static_bytes()
    total = sum(float(static[o]) for stage in plan.stages if device in stage.devices for o in stage.operators)
    if problem.stated_bytes is not None or not problem.has_backward():
        return total
    changes: list[tuple[float, float]] = []
    for (stage, letter, j, at, operator), span in compute.items():
        if letter != "F" or at != device or operator >= 0:
            continue
        samples = _samples(problem, plan, stage, letter, objective) / len(plan.stages[stage].devices)
        held = sum(
            problem.graph.operators[o].saved_bytes.fixed + problem.graph.operators[o].saved_bytes.per_sample * samples
            for o in plan.stages[stage].operators
        )
        ends = [s.end_s for kind in "BIW" if (s := compute.get((stage, kind, j, at, -1))) is not None]
        changes += [(span.start_s, held), (max(ends, default=span.end_s), -held)]
    peak = level = 0.0
    for _, change in sorted(changes):
        level += change
        peak = max(peak, level)
    return total + peak
