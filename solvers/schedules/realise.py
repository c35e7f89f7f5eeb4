"""The plan of a draft: devices, in-flight numbers and orders."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.errors import InvalidPlan
from solvers.plan.drafts import Draft
from solvers.plan.plan import Plan, Stage
from solvers.problem.problem import Pipeline, Problem
from solvers.schedules.nodes.mapping import map_stages
from solvers.schedules.ordering.arrange import arranged
from solvers.schedules.ordering.in_flight import in_flight_samples
from solvers.schedules.ordering.orders import stage_successors, stage_waits


def realise(problem: Problem, draft: Draft, devices: Sequence[tuple[int, ...]] | None = None) -> Plan:
    """The plan of a draft: devices, in-flight numbers and orders, for the problem's pipeline.

    devices: those of every stage of the draft; by default `map_stages` chooses. Raises InvalidPlan if
    there are too few accelerators, a host has one itself, or stages wait for each other.
    """
    if any(stage.host is not None and draft.stages[stage.host].host is not None for stage in draft.stages):
        raise InvalidPlan("a stage shares the devices of one that has none of its own")
    position = {operator: rank for rank, operator in enumerate(problem.graph.topological_order)}
    sets = [tuple(sorted(stage.operators, key=position.__getitem__)) for stage in draft.stages]
    waits = stage_waits(problem.graph, sets)
    chosen = map_stages(problem, draft.stages, sets) if devices is None else devices
    stages = tuple(
        Stage(operators, places, stage.micro_batch_size, keeps, stage.recompute)
        for stage, operators, places, keeps in zip(
            draft.stages, sets, chosen, _in_flight(problem, draft, sets), strict=True
        )
    )
    return arranged(problem, stages, waits, [stage.block for stage in draft.stages])


def _in_flight(problem: Problem, draft: Draft, sets: Sequence[tuple[int, ...]]) -> list[int]:
    """Micro-batches each stage keeps."""
    counts = [problem.mini_batch // stage.micro_batch_size for stage in draft.stages]
    if not problem.has_backward():
        return [1] * len(counts)
    if problem.pipeline is Pipeline.GPIPE:
        return counts
    after = stage_successors(problem, sets)
    sizes = [stage.micro_batch_size for stage in draft.stages]
    blocks = [min(stage.block, count) for stage, count in zip(draft.stages, counts, strict=True)]
    hosted = {index for index, stage in enumerate(draft.stages) if stage.host is not None}
    samples = in_flight_samples(after, sizes, blocks, problem.mini_batch, hosted)
    return [
        min(count, kept // size + stage.slack)
        for stage, kept, size, count in zip(draft.stages, samples, sizes, counts, strict=True)
    ]
