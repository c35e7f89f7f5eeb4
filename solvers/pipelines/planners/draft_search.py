"""The search that planners of pipelines share: drafts to start from, local search, and the best of it judged."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.planners.chain_dp import memory_shares
from solvers.errors import InvalidPlan
from solvers.pipelines.descent.descend import Descent
from solvers.pipelines.descent.repair import repaired
from solvers.pipelines.descent.space import Space, draft_of, parts_of
from solvers.pipelines.offers import likely_counts
from solvers.pipelines.recomputation.levels import stated
from solvers.pipelines.timing.estimate import Estimate, Estimator
from solvers.pipelines.tree.starts import Starts, of_plan
from solvers.plan.drafts import Draft
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem
from solvers.schedules.nodes.mapping import GRADIENT_WEIGHTS, map_stages, nodes_to_map
from solvers.schedules.ordering.in_flight import in_flight_samples
from solvers.schedules.ordering.orders import quotient
from solvers.schedules.realise import realise
from solvers.search.front import NEAR
from solvers.search.monitor import Monitor

SLACKS = (0.0, 0.5, 1.0, 2.0)
"""Micro-batches in flight beyond the rule, as a share of it, that are tried on every start: where a stage
keeps two more than the next one, the round trip of their transfers is hidden."""
WORTH_JUDGING = 1e-4
"""Relative gain by estimate for which a draft is judged."""
PATIENCE = 30
"""Disturbances in a row, at normal effort, that may not help a start before the search turns to the next."""
LEANEST = 3
"""Drafts about as fast as the best, with the least memory, that are judged to be offered beside it."""
OF_ONE_SIZE = 2
"""Starts of one micro-batch size at most: which size is best changes with the search."""


@dataclass(slots=True)
class EstimatedDraft:
    draft: Draft
    estimate: Estimate

    @property
    def key(self) -> tuple[float, float]:
        """Bytes over the memory caps (inf if it cannot run), then seconds."""
        over, seconds = self.estimate.over, self.estimate.seconds
        return (over if math.isfinite(seconds) else math.inf), seconds


@dataclass(slots=True)
class DraftSearch:
    """One search for drafts of a problem: where it starts, what it looked at, and the best of it.

    order: super-operators in a topological order, of which every stage is a run; empty for stages of any shape.
    """

    problem: Problem
    monitor: Monitor
    order: tuple[int, ...] = ()
    space: Space = field(init=False)
    condensed: Condensed = field(init=False)
    estimator: Estimator = field(init=False)
    starts: Starts = field(init=False)
    pool: dict[tuple[frozenset[tuple[int, ...]], int], EstimatedDraft] = field(default_factory=dict)
    """The best slack of every partition and number of micro-batches."""
    estimates: int = 0
    best: Draft | None = None
    """Of which the best plan was made that was made of a draft, over operators."""
    made: Plan | None = None
    """That plan."""

    def __post_init__(self) -> None:
        self.condensed = Condensed(self.problem, ordered=True)
        self.estimator = Estimator(self.condensed)
        self.starts = Starts(self.condensed, self.monitor.check, order=self.order)
        self.space = Space(self.condensed, self.order)

    def start(self, counts: tuple[int, ...]) -> None:
        """Fill the pool, and offer the best of every number of micro-batches that is the best so far."""
        for count, bound_s, _ in likely_counts(self.problem, counts):
            if bound_s >= self.monitor.objective_s:
                continue
            self.monitor.begin(f"stages for {count} micro-batches")
            for share in memory_shares(self.problem):
                drafts = filter(None, map(self.with_pins, self.starts.at(count, share)))
                slackened = [self._slackened(draft) for draft in drafts]
                self.offer(min(slackened, key=lambda one: one.key, default=None))
                if any(one.estimate.feasible for one in slackened):
                    break

    def go_by(self, plan: Plan | None) -> None:
        """Put a plan's stages into the pool."""
        if plan is not None and (start := self.with_pins(of_plan(self.condensed, plan))):
            self._slackened(start)

    def with_pins(self, draft: Draft) -> Draft | None:
        """The draft made to keep the pins; None where that was not possible."""
        if not self.problem.pins:
            return draft
        parts = repaired(self.space, parts_of(draft))
        return None if parts is None else draft_of(parts)

    def published(self, counts: tuple[int, ...]) -> None:
        """The plan of the published search for every number of micro-batches."""
        self.starts.glue_share = 0.0
        for count in counts:
            for share in memory_shares(self.problem):
                draft = self.starts.published(count, share)
                if draft is not None and self.judge(draft) < np.inf:
                    break

    def refine(self, starts: int, evaluations: int, patience: int) -> None:
        """Local search from the best of the pool, of several micro-batch sizes: the first has twice the share of the
        evaluations of each other, and the best what is left in the end. Each gives up earlier after ``patience``
        disturbances in a row that have not helped."""
        descents = [
            Descent(self.space, one.draft, self.estimate, self.monitor.check, self.monitor.rng)
            for one in self._ranked(starts)
        ]
        left = 0
        for number, descent in enumerate(descents):
            self.monitor.begin(f"moving operators and devices between stages, start {number + 1} of {len(descents)}")
            left += evaluations * (1 if number else 2) // (len(descents) + 1)
            left = self._go_on(descent, left, patience)
        if descents and left > 0:
            self.monitor.begin("moving operators and devices between stages of the best")
            self._go_on(min(descents, key=lambda descent: descent.worth), left, patience)
        if descents:
            self._lean(descents)

    def go_on_from(self, start: Draft, evaluations: int, patience: int) -> None:
        """Local search from a draft."""
        descent = Descent(self.space, start, self.estimate, self.monitor.check, self.monitor.rng)
        self._go_on(descent, evaluations, patience)
        self._lean([descent])

    def _lean(self, descents: list[Descent]) -> None:
        """Have the drafts judged that take about as long as the best and need least memory: of all that were looked
        at, and the best with fewer micro-batches in flight."""
        best = min(descents, key=lambda descent: descent.worth)
        most_s = best.worth[1] * (1 + NEAR)
        lean: list[tuple[float, Draft]] = []
        for descent in descents:
            near = [
                (estimate, parts)
                for parts, (key, estimate) in descent.known.items()
                if key[0] == 0 and key[1] <= most_s
            ]
            lean += [(max(estimate.peak_bytes), draft_of(parts)) for estimate, parts in near]
        stages = best.draft.stages
        for slack in range(max(stage.slack for stage in stages)):
            less = Draft(tuple(replace(stage, slack=min(stage.slack, slack)) for stage in stages))
            estimate = self.estimate(less)
            if estimate.feasible and estimate.seconds <= most_s:
                lean.append((max(estimate.peak_bytes), less))
        for _, draft in sorted(lean, key=lambda one: one[0])[:LEANEST]:
            self.monitor.check()
            self.judge(draft)

    def _go_on(self, descent: Descent, evaluations: int, patience: int) -> int:
        """Until ``patience`` disturbances in a row have not helped; the evaluations that are left."""
        vain, (over, seconds) = 0, descent.worth
        for _ in descent.run(evaluations):
            now = descent.worth
            if now[0] < over or now[1] < seconds * (1 - WORTH_JUDGING):
                vain, (over, seconds) = 0, now
                self.offer(EstimatedDraft(descent.draft, self.estimator.estimate(descent.draft)))
            else:
                vain += 1
            if vain > patience:
                break
        return descent.left

    def _ranked(self, starts: int) -> list[EstimatedDraft]:
        ranked: list[EstimatedDraft] = []
        sizes: Counter[int] = Counter()
        for one in sorted(self.pool.values(), key=lambda one: one.key):
            size = one.draft.stages[0].micro_batch_size
            if len(ranked) < starts and sizes[size] < OF_ONE_SIZE:
                sizes[size] += 1
                ranked.append(one)
        return ranked

    def estimate(self, draft: Draft) -> Estimate:
        self.estimates += 1
        return self.estimator.estimate(draft)

    def offer(self, estimated: EstimatedDraft | None) -> None:
        """Have a draft judged if by its estimate it may be the best: that takes longer than many estimates."""
        if estimated is None:
            return
        if estimated.estimate.seconds < self.monitor.objective_s * (1 - WORTH_JUDGING) or self.monitor.best is None:
            self.judge(estimated.draft)

    def remap(self) -> None:
        """Offer the best with its stages in other nodes, where nodes matter."""
        if self.best is None or nodes_to_map(self.problem) is None:
            return
        self.monitor.begin("mapping stages to nodes")
        stages = self.best.stages
        for weight in GRADIENT_WEIGHTS[1:]:
            devices = map_stages(self.problem, stages, [stage.operators for stage in stages], weight)
            self.monitor.offer(realise(self.problem, stated(self.problem, self.best), devices))

    def judge(self, draft: Draft) -> float:
        """Seconds of the draft's plan, inf if it does not fit or cannot run."""
        whole = draft.expanded(self.condensed.at(1, merge_trivial=False).shape.members)
        try:
            plan = realise(self.problem, stated(self.problem, whole), self.estimator.devices(draft))
            seconds = self.monitor.offer(plan)
        except InvalidPlan:  # stages wait for each other, as where backward tensors do not mirror forward ones
            return np.inf
        if self.monitor.best is plan:
            self.best, self.made = whole, plan
        return seconds

    def _slackened(self, draft: Draft) -> EstimatedDraft:
        """With the slack that is best, put into the pool."""
        best: EstimatedDraft | None = None
        in_flight = self._in_flight(draft)
        for share in SLACKS if self.problem.may_run_ahead else SLACKS[:1]:
            self.monitor.check()
            tried = Draft(
                tuple(
                    replace(stage, slack=math.ceil(share * count))
                    for stage, count in zip(draft.stages, in_flight, strict=True)
                )
            )
            one = EstimatedDraft(tried, self.estimate(tried))
            if best is None or one.key < best.key:
                best = one
        assert best is not None
        size = draft.stages[0].micro_batch_size
        key = frozenset(stage.operators for stage in draft.stages), size
        if key not in self.pool or best.key < self.pool[key].key:
            self.pool[key] = best
        return best

    def _in_flight(self, draft: Draft) -> list[int]:
        """Micro-batches every stage keeps by the rule, however few there are in all."""
        edges = self.condensed.at(draft.stages[0].micro_batch_size, merge_trivial=False).shape.edges
        after = quotient(edges, [stage.operators for stage in draft.stages])
        ones = [1] * len(after)
        hosted = {number for number, stage in enumerate(draft.stages) if stage.host is not None}
        return in_flight_samples(after, ones, ones, len(after) + 1, hosted)
