"""Tensor-parallel groups of several sizes: the operators divided over groups of one size are a question of their own,
about those groups; the stages of its plan and of the others' make one pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from solvers.errors import InvalidPlan
from solvers.plan.plan import Plan, Region, Stage
from solvers.problem.graph import OpGraph
from solvers.problem.problem import ComputeTable, Objective, Problem
from solvers.schedules.ordering.arrange import arranged
from solvers.schedules.ordering.in_flight import in_flight
from solvers.schedules.ordering.orders import stage_successors, stage_waits


@dataclass(frozen=True, eq=False)
class OfSize:
    """question: about the operators and the devices of one size, which have these positions in the whole one."""

    question: Problem
    operators: tuple[int, ...]
    devices: tuple[int, ...]


def group_sizes(problem: Problem) -> list[int]:
    """The sizes of a problem's groups, the largest first, where each can be planned by itself; [] where they do not
    differ."""
    sizes = sorted({device.members for device in problem.cluster.devices}, reverse=True)
    alone = problem.objective is Objective.ITERATION and problem.plain is None and not problem.pins
    return sizes if len(sizes) > 1 and alone and problem.stated_bytes is None else []


def of_size(problem: Problem, size: int, micro_batches: int | None, memory: float) -> OfSize:
    """The question about groups of one size. micro_batches: of all parts. memory: the share of every device's that its
    own stages may fill: where others follow, more micro-batches are in flight than it knows of."""
    graph = problem.graph
    operators = [at for at, members in enumerate(graph.degrees) if members == size]
    devices = [at for at, device in enumerate(problem.cluster.devices) if device.members == size]
    number = {operator: at for at, operator in enumerate(operators)}
    tensors = []
    for tensor in graph.tensors:
        if tensor.producer in number:
            read = tuple(number[consumer] for consumer in tensor.consumers if consumer in number)
            group = tensor.sum_group if read else None
            saver = number.get(tensor.saver, -1)
            tensors.append(
                replace(tensor, producer=number[tensor.producer], consumers=read, sum_group=group, saver=saver)
            )
    own = tuple(
        replace(
            operator,
            forward_of=None if operator.forward_of is None else number[operator.forward_of],
        )
        for operator in (graph.operators[at] for at in operators)
    )
    cluster = problem.cluster.part(devices)
    smaller = tuple(replace(device, memory_bytes=device.memory_bytes * memory) for device in cluster.devices)
    kinds = {device.kind for device in smaller}
    seconds = {kind: table[operators] for kind, table in problem.compute.seconds.items() if kind in kinds}
    origins = {kind: table[operators] for kind, table in problem.compute.origins.items() if kind in kinds}
    question = replace(
        problem,
        graph=OpGraph(own, tuple(tensors), graph.samples, graph.name, size),
        cluster=replace(cluster, devices=smaller),
        compute=ComputeTable(problem.compute.samples, seconds, origins),
        transfer_s=None,
        micro_batches=micro_batches or problem.micro_batches,
        max_replicas=min(problem.max_replicas, len(devices)),
    )
    return OfSize(question, tuple(operators), tuple(devices))


def joined(problem: Problem, parts: Sequence[tuple[OfSize, Plan]]) -> Plan:
    """The pipeline of all parts' stages. Raises InvalidPlan where they wait for each other in a cycle, or differ in
    their micro-batches."""
    stages = [
        Stage(
            tuple(part.operators[at] for at in stage.operators),
            tuple(part.devices[at] for at in stage.devices),
            stage.micro_batch_size,
            recompute=stage.recompute,
            offload=tuple(part.operators[at] for at in stage.offload),
            regions=tuple(
                Region(*(tuple(part.operators[at] for at in members) for members in region)) for region in stage.regions
            ),
        )
        for part, plan in parts
        for stage in plan.stages
    ]
    sizes = [stage.micro_batch_size for stage in stages]
    if len(set(sizes)) > 1:
        raise InvalidPlan("parts have micro-batches of different sizes")
    members = [stage.operators for stage in stages]
    flights = in_flight(problem, stage_successors(problem, members), sizes, [1] * len(stages))
    waits = stage_waits(problem.graph, members)
    placed = tuple(replace(stage, in_flight=flight) for stage, flight in zip(stages, flights, strict=True))
    return arranged(problem, placed, waits)
