"""Pipelines whose stages form a DAG: branches of the model run beside each other, not one after the other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.planners.chain_dp import memory_shares
from solvers.errors import InvalidPlan
from solvers.pipelines.descent.descend import Descent
from solvers.pipelines.descent.repair import repaired
from solvers.pipelines.descent.space import Space, draft_of, parts_of
from solvers.pipelines.ladder import simpler
from solvers.pipelines.offers import likely_counts
from solvers.pipelines.planners.pipedream_iter import PipeDreamIteration
from solvers.pipelines.seating import kinds_by_speed
from solvers.pipelines.timing.estimate import Estimate, Estimator
from solvers.pipelines.tree.starts import Starts, of_plan, over_super_operators
from solvers.plan.drafts import Draft
from solvers.plan.plan import Plan
from solvers.problem.pinned import with_pins_together
from solvers.problem.problem import Objective, Problem
from solvers.schedules.nodes.mapping import GRADIENT_WEIGHTS, map_stages, nodes_to_map
from solvers.schedules.ordering.in_flight import in_flight_samples
from solvers.schedules.ordering.orders import quotient
from solvers.schedules.realise import realise
from solvers.search.front import NEAR
from solvers.search.monitor import Monitor

MODES = ("iteration", "paper")
SLACKS = (0.0, 0.5, 1.0, 2.0)
"""Micro-batches in flight beyond the rule, as a share of it, that are tried on every start: where a stage
keeps two more than the next one, the round trip of their transfers is hidden."""
FEW_DEVICES = 16
"""On more, fewer linear orders are cut: that and judging what is found would take most of the time."""
WORTH_JUDGING = 1e-4
"""Relative gain by estimate for which a draft is judged."""
PATIENCE = 30
"""Disturbances in a row, at normal effort, that may not help a start before the search turns to the next."""
LEANEST = 3
"""Drafts about as fast as the best, with the least memory, that are judged to be offered beside it."""
OF_ONE_SIZE = 2
"""Starts of one micro-batch size at most: which size is best changes with the search."""


@dataclass(frozen=True)
class GraphPipeline:
    """A DAG of stages, each with its replicas, for the iteration with flush.

    mode "iteration": for every micro-batch size and a grid of bottlenecks, the stages of least critical
    path over the graph's series-parallel tree, over the same with joins put to a branch, and over a chain
    (so no sequential plan of that kind is missed); all are estimated as the simulator would tell, and from
    the best ``starts`` a local search goes on, for at most ``evaluations`` estimates at normal effort. Then,
    with ``ladder``, `simpler` questions are answered in the same way, and a plan of theirs that is better is gone on
    from. mode "paper": the published search, which meets the least bottleneck (time per sample) with the fewest
    micro-batches in flight, every stage on devices of its own, and keeps the micro-batch size that simulates
    best.
    """

    name: ClassVar[str] = "graph-pipeline"
    source: ClassVar[str] = "Jeon et al., GraphPipe, ASPLOS 2025; the iteration mode is new here"
    guarantee: ClassVar[str] = "heuristic"

    mode: str = "iteration"
    starts: int = 3
    evaluations: int = 1000
    ladder: bool = True

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, found {self.mode!r}")
        if self.starts < 1 or self.evaluations < 0:
            raise ValueError("starts must be at least 1 and evaluations at least 0")

    def unsupported(self, problem: Problem) -> str | None:
        if problem.is_latency:
            return "the latency of one sample, which no pipeline shortens; use latency"
        if not problem.cluster.accelerators:
            return "a cluster without accelerators; use auto"
        never = np.isinf(problem.compute.at(kinds_by_speed(problem)[0], 1))
        if never.any():
            name = problem.graph.operators[int(np.argmax(never))].name
            return f"operator {name!r}, which no accelerator runs; use auto"
        if any(problem.cluster.devices[device].is_cpu for device in problem.pins.values()):
            return "operators pinned to CPUs; use local-search or auto, or remove the pins"
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        self._search(with_pins_together(problem), monitor, {})
        return False

    def go_on(self, problem: Problem, monitor: Monitor, plans: Sequence[Plan]) -> None:
        """Local search from plans of questions about the same graph, which need not fit here and are `repaired` to keep
        the pins: a quarter of the evaluations each."""
        search = _Search(with_pins_together(problem), monitor)
        for plan in plans:
            start = search.kept(of_plan(search.condensed, plan))
            if start is not None:
                search.go_on_from(start, monitor.effort.of(self.evaluations) // 4, monitor.effort.of(PATIENCE))

    def keeping_pins(self, problem: Problem, plan: Plan) -> Plan | None:
        """The plan `repaired` to keep the pins; None where that was not possible."""
        search = _Search(with_pins_together(problem), Monitor(problem))
        start = search.kept(of_plan(search.condensed, plan))
        return None if start is None or search.judge(start) == np.inf else search.made

    def _search(self, problem: Problem, monitor: Monitor, known: dict[tuple[int, int], _Answer]) -> _Answer:
        """known: the answers of simpler questions that were asked already, by devices and replicas."""
        search = _Search(problem, monitor)
        single = problem.objective is Objective.MAKESPAN
        counts = (1,) if single else problem.micro_batch_choices()
        if self.mode == "paper":
            search.published(counts)
        else:
            search.relax()
            search.start(counts)
            effort = monitor.effort
            search.refine(self.starts, effort.of(self.evaluations), effort.of(PATIENCE))
            for one in simpler(problem) if self.ladder and self.evaluations and not single else ():
                question = one.question
                key = one.key
                if key not in known:
                    replicas = " without replicas" if question.max_replicas < problem.max_replicas else ""
                    monitor.begin(f"the same on {len(question.cluster)} devices{replicas}")
                    known[key] = self._search(question, monitor.asking(question), known)
                plan, draft = known[key]
                before_s = monitor.objective_s
                if plan is not None and monitor.offer(one.answer(plan)) < before_s:
                    of = search.condensed
                    start = of_plan(of, plan) if draft is None else over_super_operators(of, draft)
                    search.go_on_from(start, effort.of(self.evaluations) // 4, effort.of(PATIENCE))
        search.remap()
        monitor.note(f"graph-pipeline: {search.starts.effort}, {search.estimates:,} estimates")
        return _Answer(monitor.best, search.best if search.made is monitor.best else None)


class _Answer(NamedTuple):
    """The best plan of a question, and the draft over operators that it was made of, where it was made of one."""

    plan: Plan | None
    draft: Draft | None


@dataclass(slots=True)
class _Found:
    draft: Draft
    estimate: Estimate

    @property
    def key(self) -> tuple[float, float]:
        """Bytes over the memory caps (inf if it cannot run), then seconds."""
        over, seconds = self.estimate.over, self.estimate.seconds
        return (over if math.isfinite(seconds) else math.inf), seconds


@dataclass(slots=True)
class _Search:
    problem: Problem
    monitor: Monitor
    space: Space = field(init=False)
    condensed: Condensed = field(init=False)
    estimator: Estimator = field(init=False)
    starts: Starts = field(init=False)
    pool: dict[tuple[frozenset[tuple[int, ...]], int], _Found] = field(default_factory=dict)
    """The best slack of every partition and number of micro-batches."""
    estimates: int = 0
    best: Draft | None = None
    """Of which the best plan was made that was made of a draft, over operators."""
    made: Plan | None = None
    """That plan."""

    def __post_init__(self) -> None:
        self.condensed = Condensed(self.problem, ordered=True)
        self.estimator = Estimator(self.condensed)
        self.starts = Starts(self.condensed, self.monitor.check)
        self.space = Space(self.condensed)

    def start(self, counts: tuple[int, ...]) -> None:
        """Fill the pool, and offer the best of every number of micro-batches that is the best so far."""
        for count, bound_s, _ in likely_counts(self.problem, counts):
            if bound_s >= self.monitor.objective_s:
                continue
            self.monitor.begin(f"stages for {count} micro-batches")
            for share in memory_shares(self.problem):
                kept = filter(None, map(self.kept, self.starts.at(count, share)))
                found = [self._slackened(draft) for draft in kept]
                self.offer(min(found, key=lambda one: one.key, default=None))
                if any(one.estimate.feasible for one in found):
                    break

    def relax(self) -> None:
        """Put into the pool what is found by cutting linear orders: its stages wait for what they read alone."""
        few = len(self.problem.cluster.accelerators) <= FEW_DEVICES
        sequential = PipeDreamIteration() if few else PipeDreamIteration(orders=2, finalists=3, moves=False)
        if sequential.unsupported(self.problem) is None:
            sequential(self.problem, self.monitor)
        if self.monitor.best is not None and (start := self.kept(of_plan(self.condensed, self.monitor.best))):
            self._slackened(start)

    def kept(self, draft: Draft) -> Draft | None:
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
        found: list[tuple[float, Draft]] = []
        for descent in descents:
            near = [(told, parts) for parts, (key, told) in descent.known.items() if key[0] == 0 and key[1] <= most_s]
            found += [(max(told.peak_bytes), draft_of(parts)) for told, parts in near]
        stages = best.draft.stages
        for slack in range(max(stage.slack for stage in stages)):
            less = Draft(tuple(replace(stage, slack=min(stage.slack, slack)) for stage in stages))
            told = self.estimate(less)
            if told.feasible and told.seconds <= most_s:
                found.append((max(told.peak_bytes), less))
        for _, draft in sorted(found, key=lambda one: one[0])[:LEANEST]:
            self.monitor.check()
            self.judge(draft)

    def _go_on(self, descent: Descent, evaluations: int, patience: int) -> int:
        """Until ``patience`` disturbances in a row have not helped; the evaluations that are left."""
        vain, (over, seconds) = 0, descent.worth
        for _ in descent.run(evaluations):
            now = descent.worth
            if now[0] < over or now[1] < seconds * (1 - WORTH_JUDGING):
                vain, (over, seconds) = 0, now
                self.offer(_Found(descent.draft, self.estimator.estimate(descent.draft)))
            else:
                vain += 1
            if vain > patience:
                break
        return descent.left

    def _ranked(self, starts: int) -> list[_Found]:
        ranked: list[_Found] = []
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

    def offer(self, found: _Found | None) -> None:
        """Have a draft judged if by its estimate it may be the best: that takes longer than many estimates."""
        if found is None:
            return
        if found.estimate.seconds < self.monitor.objective_s * (1 - WORTH_JUDGING) or self.monitor.best is None:
            self.judge(found.draft)

    def remap(self) -> None:
        """Offer the best with its stages in other nodes, where nodes matter."""
        if self.best is None or nodes_to_map(self.problem) is None:
            return
        self.monitor.begin("mapping stages to nodes")
        stages = self.best.stages
        for weight in GRADIENT_WEIGHTS[1:]:
            devices = map_stages(self.problem, stages, [stage.operators for stage in stages], weight)
            self.monitor.offer(realise(self.problem, self.best, devices))

    def judge(self, draft: Draft) -> float:
        """Seconds of the draft's plan, inf if it does not fit or cannot run."""
        whole = draft.expanded(self.condensed.at(1, merge_trivial=False).shape.members)
        try:
            plan = realise(self.problem, whole, self.estimator.devices(draft))
            seconds = self.monitor.offer(plan)
        except InvalidPlan:  # stages wait for each other, as where backward tensors do not mirror forward ones
            return np.inf
        if self.monitor.best is plan:
            self.best, self.made = whole, plan
        return seconds

    def _slackened(self, draft: Draft) -> _Found:
        """With the slack that is best, put into the pool."""
        best: _Found | None = None
        kept = self._kept(draft)
        for share in SLACKS if self.problem.may_run_ahead else SLACKS[:1]:
            self.monitor.check()
            tried = Draft(
                tuple(
                    replace(stage, slack=math.ceil(share * count))
                    for stage, count in zip(draft.stages, kept, strict=True)
                )
            )
            one = _Found(tried, self.estimate(tried))
            if best is None or one.key < best.key:
                best = one
        assert best is not None
        size = draft.stages[0].micro_batch_size
        key = frozenset(stage.operators for stage in draft.stages), size
        if key not in self.pool or best.key < self.pool[key].key:
            self.pool[key] = best
        return best

    def _kept(self, draft: Draft) -> list[int]:
        """Micro-batches every stage keeps by the rule, however few there are in all."""
        edges = self.condensed.at(draft.stages[0].micro_batch_size, merge_trivial=False).shape.edges
        after = quotient(edges, [stage.operators for stage in draft.stages])
        ones = [1] * len(after)
        hosted = {number for number, stage in enumerate(draft.stages) if stage.host is not None}
        return in_flight_samples(after, ones, ones, len(after) + 1, hosted)
