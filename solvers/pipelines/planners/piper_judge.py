"""From a chain of Piper's stages to plans: what they are estimated to take, and what they are judged to take."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from solvers.coarsening.contracted import Shape
from solvers.pipelines.offers import offer_draft
from solvers.pipelines.piper.costed import PiperStage
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.schedules.ordering.in_flight import in_flight_samples
from solvers.schedules.ordering.orders import stage_successors
from solvers.search.monitor import Monitor

WORTH = 1.15
"""A plan that takes longer than this many times the best known is not tried with more in flight."""


@dataclass(frozen=True, slots=True)
class PiperChain:
    """Stages from the start of the pipeline to its end. samples: per micro-batch, of every replica if ``whole``.
    replicas: of each stage. shape: the nodes, their operators and edges."""

    stages: tuple[PiperStage, ...]
    replicas: tuple[int, ...]
    samples: int
    whole: bool
    shape: Shape

    def estimate_s(self, problem: Problem) -> float:
        """About what the objective will be: an iteration is all micro-batches on the slowest stage, beside its
        transfers, and one through all stages."""
        slowest_s = max(max(stage.compute_s, stage.moved_s) for stage in self.stages)
        through_s = self._through_s()
        if problem.objective is Objective.MAX_LOAD:
            return max(stage.seconds for stage in self.stages)
        if problem.objective is Objective.MAKESPAN:
            return through_s * problem.mini_batch
        return (problem.mini_batch - self.samples) * slowest_s + self.samples * through_s

    def _through_s(self) -> float:
        """The longest path of compute and transfers, per sample."""
        number = {node: i for i, stage in enumerate(self.stages) for node in stage.nodes}
        steps = {(number[u], number[v]) for u, v in self.shape.edges}
        until = [stage.compute_s + stage.moved_s for stage in self.stages]
        for u, v in sorted(steps):  # a stage's inputs all come from stages before it
            if u != v:
                own_s = self.stages[v].compute_s + self.stages[v].moved_s
                until[v] = max(until[v], until[u] + own_s)
        return max(until)

    def floor_s(self, problem: Problem) -> float:
        """What an iteration takes at least, the compute of the busiest stage; 0 for other objectives."""
        if problem.objective is not Objective.ITERATION:
            return 0.0
        return max(stage.compute_s for stage in self.stages) * problem.mini_batch * (1 - 1e-9)

    def draft_stages(self) -> list[DraftStage]:
        return [
            DraftStage(
                tuple(sorted(o for node in stage.nodes for o in self.shape.members[node])),
                self.samples * (replicas if self.whole else 1),
                replicas,
                bool(stage.recomputed),
            )
            for stage, replicas in zip(self.stages, self.replicas, strict=True)
        ]


class Judge:
    """Has plans of chains judged, each once."""

    def __init__(self, problem: Problem, monitor: Monitor, slack: int) -> None:
        self.problem, self.monitor, self.slack = problem, monitor, slack
        self._known: dict[Draft, float] = {}

    def best_s(self, chain: PiperChain) -> float:
        """The objective of the chain's best plan, in seconds; inf if none fits. Tried with what its stages need in
        flight, and with what they have in a chain (which may be more), each while more in flight is better."""
        best = math.inf
        for row in self._drafts(chain):
            last = math.inf
            for draft in row:
                judged_s = self._judge(draft)
                best = min(best, judged_s)
                if judged_s >= last or judged_s > WORTH * self.monitor.objective_s:
                    break
                last = judged_s
        return best

    def _drafts(self, chain: PiperChain) -> list[list[Draft]]:
        stages = chain.draft_stages()
        if not self.problem.has_backward() or self.problem.pipeline is Pipeline.GPIPE:
            return [[Draft(tuple(stages))]]
        after = stage_successors(self.problem, [stage.operators for stage in stages])
        sizes = [stage.micro_batch_size for stage in stages]
        samples = in_flight_samples(after, sizes, [1] * len(stages), self.problem.mini_batch)
        in_chain = [
            max(s.flights - held // size, 0) for s, held, size in zip(chain.stages, samples, sizes, strict=True)
        ]
        rows = ([0] * len(stages), in_chain) if any(in_chain) else ([0] * len(stages),)
        return [
            [
                Draft(tuple(replace(stage, slack=own + more) for stage, own in zip(stages, row, strict=True)))
                for more in range(self.slack + 1)
            ]
            for row in rows
        ]

    def _judge(self, draft: Draft) -> float:
        if draft not in self._known:
            self._known[draft] = offer_draft(self.problem, self.monitor, draft)
        return self._known[draft]
