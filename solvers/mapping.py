"""Which devices the stages of a draft run on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from solvers.errors import InvalidPlan
from solvers.graph import topological_order
from solvers.orders import stage_successors
from solvers.problem import Problem

if TYPE_CHECKING:
    from solvers.drafts import DraftStage


def map_stages(
    problem: Problem, stages: Sequence[DraftStage], sets: Sequence[tuple[int, ...]]
) -> list[tuple[int, ...]]:
    """Devices of every stage: accelerators in the order of the stages, replicas of one in one host where
    they fit. Raises InvalidPlan if there are too few."""
    free = list(problem.cluster.accelerators)
    chosen: list[tuple[int, ...]] = [()] * len(stages)
    after = [sorted(targets) for targets in stage_successors(problem, sets)]
    for index in topological_order(after):
        stage = stages[index]
        if stage.host is not None:
            continue
        if stage.replicas > len(free):
            needed = sum(s.replicas for s in stages if s.host is None)
            raise InvalidPlan(f"the stages take {needed} accelerators, there are {len(problem.cluster.accelerators)}")
        chosen[index] = tuple(free[: stage.replicas])
        free = free[stage.replicas :]
    return [chosen[index if stage.host is None else stage.host] for index, stage in enumerate(stages)]
