"""Data parallelism alone: every device holds the whole model and takes a share of every micro-batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from solvers.contiguous.chains import ROUNDING
from solvers.contiguous.planners.chain_dp import micro_batch_choices, unsupported
from solvers.pipelines.recomputation.levels import choices_allowed, stated
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.graph import Phase
from solvers.problem.problem import Objective, Problem
from solvers.schedules.realise import realise
from solvers.search.monitor import Monitor

GIB = 2**30


@dataclass(frozen=True)
class DataParallel:
    """One stage on all accelerators, or on as many as may hold copies; gradients are added up once.

    Several micro-batches are gradient accumulation. The stage recomputes its forward where the problem
    allows it and memory asks for it.
    """

    name: ClassVar[str] = "data-parallel"
    source: ClassVar[str] = "baseline: synchronous data parallelism with gradient accumulation"
    guarantee: ClassVar[str] = "heuristic"

    def unsupported(self, problem: Problem) -> str | None:
        devices = problem.cluster.accelerators
        if not devices:
            return "it copies the model to accelerators, and the cluster has none"
        if problem.max_replicas == 1:
            return "a stage may run on one device only; allow replicas (--replicate)"
        least = min(problem.cluster.devices[d].memory_bytes for d in devices)
        most = min(problem.max_replicas, len(devices))
        held = float(problem.static_bytes(most).sum() + problem.gathered_bytes(most).max())
        if held > least * (1 + ROUNDING):
            return (
                f"every device would hold the whole model, {held / GIB:,.1f} GiB of parameters and states, more than"
                f" its memory of {least / GIB:,.1f} GiB"
            )
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        most = min(problem.max_replicas, len(problem.cluster.accelerators))
        everything = tuple(range(len(problem.graph)))
        for replicas in range(most, 0, -1):
            shared = [
                problem.mini_batch // count
                for count in micro_batch_choices(problem)
                if problem.can_share(problem.mini_batch // count, replicas)
            ]
            for samples in shared:
                if self._compute_s(problem, samples, replicas) >= monitor.objective_s:
                    continue
                for again in choices_allowed(problem):
                    monitor.check()
                    draft = Draft((DraftStage(everything, samples, replicas, recompute=again),))
                    if monitor.offer(realise(problem, stated(problem, draft))) < math.inf:
                        break
            if monitor.best is not None:
                return False
            if shared:
                monitor.note(f"the whole model and the activations of a micro-batch do not fit on {replicas} devices")
                return False
        return False

    @staticmethod
    def _compute_s(problem: Problem, samples: int, replicas: int) -> float:
        """Seconds of computation of all micro-batches, at least, where that is the objective; else 0."""
        if problem.objective is not Objective.ITERATION:
            return 0.0
        kind = problem.cluster.devices[problem.cluster.accelerators[0]].kind
        counted = [i for i, operator in enumerate(problem.graph.operators) if operator.phase is not Phase.UPDATE]
        return float(problem.compute.at(kind, samples / replicas)[counted].sum()) * (problem.mini_batch // samples)
