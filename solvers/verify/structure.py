"""What a plan must be before anything is scheduled: every operator in its place, nothing where it may not be, and
sets of operators contiguous in either of the two meanings.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from typing import TypeVar

import numpy as np

from solvers.plan.plan import Plan
from solvers.problem.collectives import Axis, axes_of
from solvers.problem.graph import BACKWARD_PHASES, CACHED_ATTENTION, Operator, OpGraph, Phase, per_graph
from solvers.problem.problem import IN_PARTS, Contiguity, Objective, Pipeline, Problem

CACHE_SLACK = 1e-6
"""Of the bytes of a KV cache that are counted in another way."""


def structure(problem: Problem, plan: Plan) -> list[str]:
    """The rules of placement that the plan breaks, a sentence each."""
    findings = _positions(problem, plan)
    if findings:
        return findings
    places: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for stage in plan.stages:
        for operator in stage.operators:
            places[operator].append(stage.devices)
    return [
        *_operators(problem, places),
        *_stages(problem, plan),
        *_regions(problem, plan),
        *_micro_batches(problem, plan),
        *_too_far_ahead(problem, plan),
        *_subgraphs(problem, plan),
        *_caches(problem),
    ]


def _caches(problem: Problem) -> list[str]:
    """KV caches that are not what attention reads of them for a sequence, for all sequences: what it moves beside the
    tensors that it reads and makes."""
    graph = problem.graph
    findings = []
    for position, operator in enumerate(graph.operators):
        if operator.op_type != CACHED_ATTENTION:
            continue
        around = math.fsum(
            graph.tensors[t].nbytes.per_sample for t in (*graph.inputs[position], *graph.outputs[position])
        )
        expected = (operator.moved_bytes.per_sample - around) * problem.mini_batch
        most = expected + operator.moved_bytes.fixed  # and module buffers, such as a mask
        if not expected * (1 - CACHE_SLACK) <= operator.buffer_bytes <= most * (1 + CACHE_SLACK):
            findings.append(
                f"operator {operator.name!r} holds a KV cache of {operator.buffer_bytes:.0f} bytes, and it reads one of"
                f" {expected:.0f} for {problem.mini_batch} sequences"
            )
    return findings


def _positions(problem: Problem, plan: Plan) -> list[str]:
    """Positions of devices and operators that are not there."""
    operators, devices = len(problem.graph), len(problem.cluster)
    if len(plan.order) != devices:
        return [f"the order has {len(plan.order)} devices, the cluster {devices}"]
    findings = []
    for index, stage in enumerate(plan.stages):
        if not 0 <= min(stage.devices) <= max(stage.devices) < devices:
            findings.append(f"stage {index} is on devices {list(stage.devices)}, but there are {devices} devices")
        if not 0 <= min(stage.operators) <= max(stage.operators) < operators:
            wrong = next(o for o in stage.operators if not 0 <= o < operators)
            findings.append(f"stage {index} has operator {wrong}, but there are {operators} operators")
    return findings


def _operators(problem: Problem, places: dict[int, list[tuple[int, ...]]]) -> list[str]:
    operators = problem.graph.operators
    findings = []
    groups: dict[str, tuple[tuple[int, ...], str]] = {}
    for position, operator in enumerate(operators):
        here = places[position]
        if not here:
            findings.append(f"operator {operator.name!r} is in no stage")
            continue
        if len(here) > 1 and not operator.replicable:
            findings.append(f"operator {operator.name!r} is in {len(here)} stages")
        elif operator.forward_of is not None and here != places[operator.forward_of]:
            findings.append(
                f"operator {operator.name!r} is on {list(here[0])}, not with its forward operator"
                f" {operators[operator.forward_of].name!r}"
            )
        if operator.colocation is not None:
            first, name = groups.setdefault(operator.colocation, (here[0], operator.name))
            if first != here[0]:
                findings.append(f"operators {name!r} and {operator.name!r} must share a device")
    for position, device in problem.pins.items():
        if places[position] != [(device,)]:
            findings.append(f"operator {operators[position].name!r} is pinned to device {device}")
    return findings


def _stages(problem: Problem, plan: Plan) -> list[str]:
    kinds = [device.kind for device in problem.cluster.devices]
    blocked = {kind: set(np.flatnonzero(np.isinf(problem.compute.at(kind, 1))).tolist()) for kind in set(kinds)}
    findings = []
    if not problem.mixed_micro_batches and len({stage.micro_batch_size for stage in plan.stages}) > 1:
        findings.append("stages differ in the size of their micro-batches, which is not allowed")
    for index, stage in enumerate(plan.stages):
        never = {kind: sorted(each.intersection(stage.operators)) for kind, each in blocked.items() if each}
        findings += [
            f"operator {problem.graph.operators[operator].name!r} cannot run on device {device} ({kinds[device]})"
            for device in (stage.devices if never else ())
            for operator in never.get(kinds[device], ())
        ]
        if stage.recompute and not problem.recompute:
            findings.append(f"stage {index} recomputes its forward, which is not allowed")
        if stage.regions and not problem.recompute_operators:
            findings.append(f"stage {index} says which operators run again, which is not allowed")
        if stage.offload:
            findings += _cannot_offload(problem, plan, index)
        per_sample = len(problem.compute.samples) == 1
        if stage.micro_batch_size % len(stage.devices) and not per_sample:
            findings.append(f"stage {index}: its {len(stage.devices)} replicas would have to split a sample")
        step = axes_of(problem.graph).get(Axis.EXPERT, 1)
        if stage.micro_batch_size % (step * len(stage.devices)) and not per_sample:
            findings.append(f"stage {index}: members of a group would have to split a sample")
        if len(stage.devices) > problem.max_replicas:
            findings.append(f"stage {index} has {len(stage.devices)} replicas, {problem.max_replicas} are allowed")
    return findings


def _regions(problem: Problem, plan: Plan) -> list[str]:
    """Operators whose forward runs again in the graph that is counted and not in the plan, or the reverse."""
    if not problem.recompute_operators:
        return []
    stated: dict[int, tuple[int, bool]] = {}
    for number, region in enumerate(region for stage in plan.stages for region in stage.regions):
        stated |= {o: (number, o in region.cached) for o in region.operators}
    findings, name_of = [], dict[int, str]()
    graph = problem.graph if problem.plain is None else problem.plain.graph
    for position, operator in enumerate(graph.operators):
        number, cached = stated.get(position, (-1, False))
        if number >= 0 and (operator.phase is not Phase.FORWARD or operator.replicable):
            findings.append(f"operator {operator.name!r} is to run again and has no forward of its own")
        elif name_of.setdefault(number, operator.checkpoint) != operator.checkpoint or cached != operator.cached:
            findings.append(f"operator {operator.name!r} runs again otherwise than the plan says")
    names = [name for number, name in name_of.items() if number >= 0]
    if len(set(names)) != len(names) or "" in names or name_of.get(-1, ""):
        findings.append("regions of the graph that run again are not those of the plan")
    return findings


def _cannot_offload(problem: Problem, plan: Plan, index: int) -> list[str]:
    """What speaks against keeping on the host what a stage saves."""
    stage, findings = plan.stages[index], []
    saving = (problem.graph.operators[operator] for operator in stage.offload)
    findings += [
        f"stage {index} offloads what {o.name!r} saves, no forward" for o in saving if o.phase is not Phase.FORWARD
    ]
    for device in stage.devices:
        if problem.cluster.devices[device].kind not in problem.host_links:
            findings.append(f"stage {index} offloads from device {device}, which has no link to its host")
        elif problem.cluster.devices[device].concurrency is None:
            findings.append(f"stage {index} offloads from device {device}, which has no order")
    in_steps = problem.objective is Objective.ITERATION and problem.stated_bytes is None
    if not in_steps or not any(o.phase in BACKWARD_PHASES for o in problem.graph.operators):
        findings.append(f"stage {index} offloads what it saves, but nothing is counted that would be")
    if any(action.stage == index and action.kind in "IW" for row in plan.order for action in row):
        findings.append(f"stage {index} offloads what it saves, and its backward is cut in two")
    return findings


def _micro_batches(problem: Problem, plan: Plan) -> list[str]:
    """Of a pass that is not split nothing but that they divide the mini-batch."""
    findings = []
    for index, stage in enumerate(plan.stages):
        count, rest = divmod(problem.mini_batch, stage.micro_batch_size)
        if rest:
            findings.append(
                f"stage {index}: micro-batches of {stage.micro_batch_size} samples do not divide the mini-batch of"
                f" {problem.mini_batch}"
            )
        elif problem.objective is not Objective.MAKESPAN and not _may_have(problem, count):
            wanted = "a power of two" if problem.micro_batches is None else f"{problem.micro_batches}"
            findings.append(f"stage {index} has {count} micro-batches, and {wanted} is asked for")
    if problem.objective is not Objective.MAKESPAN and problem.pipeline not in IN_PARTS:
        rows = {id(row): row for row in plan.order}.values()  # devices that do the same have one
        parts = next((action for row in rows for action in row if action.kind in "IW"), None)
        if parts is not None:
            findings.append(
                f"{parts} is a part of a backward, and the pipeline {problem.pipeline.value} has whole ones"
            )
    return findings


def _too_far_ahead(problem: Problem, plan: Plan) -> list[str]:
    """Stages that keep more in flight than 1F1B does, where that is asked for: as many as stages follow on the longest
    way to the end, in samples where these differ. Those without a backward keep nothing, those of a plan that says it
    is GPipe's may keep all."""
    if problem.pipeline is not Pipeline.ONE_F_ONE_B or problem.objective is not Objective.ITERATION:
        return []
    if not problem.has_backward():
        return []
    homes: dict[int, set[int]] = defaultdict(set)
    for index, one in enumerate(plan.stages):
        for operator in one.operators:
            homes[operator].add(index)
    after: dict[int, set[int]] = {index: set() for index in range(len(plan.stages))}
    for tensor in problem.graph.tensors:
        if problem.graph.operators[tensor.producer].phase is Phase.FORWARD:
            made = homes[tensor.producer]
            readers = (c for c in tensor.consumers if problem.graph.operators[c].phase is Phase.FORWARD)
            read = {stage for reader in readers for stage in homes[reader]} - made
            for stage in made:
                after[stage] |= read
    allowed: dict[int, int] = {}
    try:  # what follows comes first
        order = list(TopologicalSorter(after).static_order())
    except CycleError:  # reported by others
        return []
    sizes = [each.micro_batch_size for each in plan.stages]
    for stage in order:
        need = max((allowed[y] + max(sizes[stage], sizes[y]) for y in after[stage]), default=sizes[stage])
        allowed[stage] = -(-need // sizes[stage]) * sizes[stage]
    findings = []
    for index, each in enumerate(plan.stages):
        row = [a.kind for a in plan.order[each.devices[0]] if a.stage == index and a.kind in "FB"]
        most = max(accumulate(1 if kind == "F" else -1 for kind in row), default=0)
        whole = plan.pipeline == Pipeline.GPIPE and most * each.micro_batch_size == problem.mini_batch
        if "B" in row and most * each.micro_batch_size > allowed[index] and most > 1 and not whole:
            findings.append(f"stage {index} keeps {most} micro-batches in flight, more than 1F1B does")
    return findings


def _may_have(problem: Problem, count: int) -> bool:
    """Whether a stage may have so many micro-batches; a replicated one a part of them where they may differ, so that
    each replica takes whole ones."""
    parts = range(1, 1 + (min(problem.max_replicas, len(problem.cluster)) if problem.mixed_micro_batches else 1))
    if problem.micro_batches is not None:
        return any(count * part == problem.micro_batches for part in parts)
    return any((count * part).bit_count() == 1 and problem.mini_batch % (count * part) == 0 for part in parts)


def _subgraphs(problem: Problem, plan: Plan) -> list[str]:
    if not problem.is_latency or problem.subgraphs_per_device is None:
        return []
    stages = Counter(device for stage in plan.stages for device in stage.devices)
    return [
        f"device {device} has {count} subgraphs, {problem.subgraphs_per_device} are allowed"
        for device, count in sorted(stages.items())
        if not problem.cluster.devices[device].is_cpu and count > problem.subgraphs_per_device
    ]


Node = TypeVar("Node", bound=Hashable)


def contiguity(problem: Problem, plan: Plan) -> list[str]:
    """How the plan breaks the contiguity asked for, at most one sentence."""
    if problem.contiguity is Contiguity.NONE or problem.is_latency:
        return []
    operators = problem.graph.operators
    by_stage = problem.by_stage  # then it is asked of every stage by itself
    place = {
        operator: (number,) if by_stage else stage.devices
        for number, stage in enumerate(plan.stages)
        for operator in stage.operators
        if not operators[operator].replicable
    }
    edges = [(a, b) for a, b in _edges(problem.graph) if a in place and b in place]
    if problem.contiguity is Contiguity.ACYCLIC:
        sources = _heads((place[b], place[a]) for a, b in edges if place[a] != place[b])
        try:
            TopologicalSorter(sources).prepare()
        except CycleError as error:
            circle = " -> ".join(str(list(devices)) for devices in error.args[1][:-1])
        else:
            return []
        return [f"the {'stages' if by_stage else 'devices'}' sets of operators are not acyclic: tensors flow {circle}"]
    readers = _heads(_edges(problem.graph))
    for group in dict.fromkeys(place.values()):
        inside = {operator for operator, where in place.items() if where == group}
        left = {b for a in inside for b in readers.get(a, ())} - inside
        reached = set(left)
        while left:
            left = {b for a in left for b in readers.get(a, ())} - reached
            reached |= left
        if back := sorted(reached & inside):
            return [f"the operators of {list(group)} are not convex: a path returns at {operators[back[0]].name!r}"]
    return []


@per_graph
def _edges(graph: OpGraph) -> tuple[tuple[int, int], ...]:
    """The edges that contiguity is about: those of the forward graph; a backward operator for which nothing
    stands there has an artificial one, whose edges run the other way (Tarnawski et al. 2020, appendix)."""
    operators = graph.operators
    groups = {operator.colocation for operator in operators if operator.phase is Phase.FORWARD}
    edges = []
    for tensor in graph.tensors:
        maker = operators[tensor.producer]
        for reader in tensor.consumers:
            if maker.phase is Phase.FORWARD:
                if operators[reader].phase is Phase.FORWARD:
                    edges.append((tensor.producer, reader))
            elif operators[reader].phase is not Phase.FORWARD and any(
                _without_forward(operator, groups) for operator in (maker, operators[reader])
            ):
                edges.append((reader, tensor.producer))
    return tuple(edges)


def _without_forward(operator: Operator, groups: set[str | None]) -> bool:
    """Whether nothing in the forward graph stands for an operator."""
    return operator.forward_of is None and (operator.colocation is None or operator.colocation not in groups)


def _heads(edges: Iterable[tuple[Node, Node]]) -> dict[Node, set[Node]]:
    """Where the edges of each node lead."""
    ahead: dict[Node, set[Node]] = {}
    for a, b in edges:
        ahead.setdefault(a, set()).add(b)
    return ahead
