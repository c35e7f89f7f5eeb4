"""PipeDream's own optimizer as a planner: the stages with the least bottleneck, transfers left out of account."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.pipedream_optimizer import DOWNSET_BUDGET, Partition, Profile, optimise, profile_of
from solvers.contiguous.planners.chain_dp import micro_batch_choices
from solvers.pipelines.offers import offer_draft, unsupported
from solvers.pipelines.planners.pipedream import PipeDream, in_blocks
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.graph import topological_order
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor
from solvers.search.planner import at_least


@dataclass(frozen=True)
class PipeDreamOptimizer:
    """The recurrence of PipeDream's published program over downsets (its antichains), with replicas.

    A stage takes (c + 4 (r - 1) w / (bandwidth r)) / r seconds on r machines, for compute c and parameters w;
    tensors between stages cost nothing there, and are paid for here when the plan is judged. For every number of
    micro-batches the partition on all accelerators is offered; where its pipeline does not fit, those on fewer. A
    graph with more than ``budget`` downsets is made a chain of blocks first, as `pipedream` does; if that has more too,
    its blocks are taken one after another.
    """

    name: ClassVar[str] = "pipedream-optimizer"
    source: ClassVar[str] = "Narayanan et al., SOSP 2019, section 3.1: the published program's recurrence"
    guarantee: ClassVar[str] = "heuristic"

    budget: int = DOWNSET_BUDGET

    def __post_init__(self) -> None:
        at_least(self, {"budget": 1})

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        views = _views(problem, monitor, self.budget)
        view, in_line = next(views)
        for count in micro_batch_choices(problem):
            samples = problem.mini_batch // count
            monitor.check()
            while (partitions := self._partitions(view, in_line, problem, samples, monitor)) is None:
                view, in_line = next(views)
            members = Condensed(view, ordered=True).at(samples, merge_trivial=False).shape.members
            _offer(problem, monitor, partitions, members, samples)
        return False

    def _partitions(
        self, view: Problem, in_line: bool, problem: Problem, samples: int, monitor: Monitor
    ) -> list[Partition] | None:
        """The partitions on all accelerators, on one less, and so on to one; None beyond the budget."""
        profile = profile_of(view, samples)
        if in_line:
            profile = _one_after_another(profile)
        machines = len(problem.cluster.accelerators)
        allowed = [r for r in range(1, min(problem.max_replicas, machines) + 1) if problem.can_share(samples, r)]
        memory = min(problem.cluster.devices[d].memory_bytes for d in problem.cluster.accelerators)
        budget = len(profile.compute_s) + 1 if in_line else self.budget
        partitions = []
        for count in range(machines, 0, -1):
            best = optimise(
                profile, count, _bandwidth(problem), memory, allowed=allowed, budget=budget, check=monitor.check
            )
            if best is None:
                return None
            partitions.append(best)
        return partitions


def _views(problem: Problem, monitor: Monitor, budget: int) -> Iterator[tuple[Problem, bool]]:
    """(problem, whether its operators are taken one after another): each with fewer downsets than the one before."""
    yield problem, False
    blocks = in_blocks(problem, PipeDream().blocks(problem, monitor.check))
    monitor.note(f"more than {budget:,} downsets: branches are merged into blocks first")
    yield blocks, False
    monitor.note(f"more than {budget:,} downsets of blocks: they are taken one after another")
    yield blocks, True


def _one_after_another(profile: Profile) -> Profile:
    """The same operators in one topological order: they have one downset more than there are of them."""
    after: list[list[int]] = [[] for _ in profile.compute_s]
    for u, v in profile.edges:
        after[u].append(v)
    return replace(profile, edges=tuple(pairwise(topological_order(after))))


def _bandwidth(problem: Problem) -> float:
    """Bytes per second of the slowest link between accelerators: PipeDream has one for all."""
    between = [speed for speed in problem.cluster.speeds if not (speed.from_cpu or speed.to_cpu)]
    return min((speed.bandwidth_bytes_per_s for speed in between), default=math.inf)


def _offer(
    problem: Problem, monitor: Monitor, partitions: list[Partition], members: tuple[tuple[int, ...], ...], samples: int
) -> None:
    """Offer the first of these partitions whose plan fits."""
    for partition in partitions:
        if not partition.stages:
            continue
        stages = tuple(DraftStage(tuple(stage.operators), samples, stage.machines) for stage in partition.stages)
        if math.isfinite(offer_draft(problem, monitor, Draft(stages).expanded(members))):
            return
