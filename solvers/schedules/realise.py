"""The plan of a draft: devices, in-flight numbers and orders."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.errors import InvalidPlan
from solvers.plan.drafts import WHOLE, Draft
from solvers.plan.plan import Plan, Stage, regions_among
from solvers.problem.problem import Pipeline, Problem
from solvers.schedules.nodes.mapping import map_stages
from solvers.schedules.ordering.arrange import arranged
from solvers.schedules.ordering.in_flight import in_flight
from solvers.schedules.ordering.orders import stage_successors, stage_waits


def realise(problem: Problem, draft: Draft, devices: Sequence[tuple[int, ...]] | None = None) -> Plan:
    """The plan of a draft: devices, in-flight numbers and orders, for the problem's pipeline.

    draft: whose stages state the regions that run again, not levels (`solvers.pipelines.recomputation.levels.stated`).
    devices: those of every stage of the draft; by default `map_stages` chooses. Raises InvalidPlan if
    there are too few accelerators, a host has one itself, or stages wait for each other.
    """
    if problem.pipeline is Pipeline.ONE_F_ONE_B:
        draft = draft.textbook()
    if any(stage.host is not None and draft.stages[stage.host].host is not None for stage in draft.stages):
        raise InvalidPlan("a stage shares the devices of one that has none of its own")
    position = {operator: rank for rank, operator in enumerate(problem.graph.topological_order)}
    sets = [tuple(sorted(stage.operators, key=position.__getitem__)) for stage in draft.stages]
    waits = stage_waits(problem.graph, sets)
    chosen = map_stages(problem, draft.stages, sets) if devices is None else devices
    stages = tuple(
        Stage(
            operators,
            places,
            stage.micro_batch_size,
            most,
            stage.recompute == WHOLE,
            regions=() if stage.recompute else regions_among(stage.regions, set(operators)),
        )
        for stage, operators, places, most in zip(
            draft.stages, sets, chosen, _in_flight(problem, draft, sets), strict=True
        )
    )
    return arranged(problem, stages, waits, [stage.block for stage in draft.stages])


def _in_flight(problem: Problem, draft: Draft, sets: Sequence[tuple[int, ...]]) -> list[int]:
    """Micro-batches each stage keeps."""
    sizes = [stage.micro_batch_size for stage in draft.stages]
    counts = [problem.mini_batch // size for size in sizes]
    blocks = [min(stage.block, count) for stage, count in zip(draft.stages, counts, strict=True)]
    hosted = {index for index, stage in enumerate(draft.stages) if stage.host is not None}
    most = in_flight(problem, stage_successors(problem, sets), sizes, blocks, hosted)
    slack = [stage.slack if problem.has_backward() else 0 for stage in draft.stages]
    return [min(count, held + more) for count, held, more in zip(counts, most, slack, strict=True)]
