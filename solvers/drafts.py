"""A plan before its devices are chosen: what planners of pipelines search over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solvers.arrange import arranged
from solvers.errors import InvalidPlan
from solvers.in_flight import in_flight_samples
from solvers.mapping import map_stages
from solvers.orders import stage_successors, stage_waits
from solvers.plan import Plan, Stage
from solvers.problem import Pipeline, Problem


@dataclass(frozen=True, slots=True)
class DraftStage:
    """A stage that still lacks its devices.

    operators: positions in the graph, in any order. replicas: how many devices share every micro-batch.
    micro_batch_size: samples. block: how many forwards, or backwards, run in a row (the k of kFkB).
    slack: micro-batches in flight beyond what `in_flight_samples` asks for, which hide the round trip of
    transfers. host: the position of the stage whose devices it shares, for operators that take next to
    no time and would waste a device (None: devices of its own).
    """

    operators: tuple[int, ...]
    micro_batch_size: int
    replicas: int = 1
    recompute: bool = False
    block: int = 1
    slack: int = 0
    host: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """Stages that partition the operators; which of them follow which is told by the tensors."""

    stages: tuple[DraftStage, ...]

    def devices(self) -> int:
        """How many devices it takes."""
        return sum(stage.replicas for stage in self.stages if stage.host is None)


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
