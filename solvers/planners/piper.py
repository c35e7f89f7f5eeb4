"""Piper: the least bottleneck over downsets, replicas and recomputation, for a sequential pipeline."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from solvers.bounds import bound_with_s
from solvers.coarsen import Condensed
from solvers.contracted import Shape
from solvers.downsets import Downsets
from solvers.drafts import Draft, DraftStage, realise
from solvers.effort import Effort
from solvers.errors import InvalidPlan
from solvers.in_flight import in_flight_samples
from solvers.monitor import Monitor, Stop
from solvers.orders import stage_successors
from solvers.piper.costed import Costed, PiperStage
from solvers.piper.dp import LIMIT, PiperSearch, downsets_of, in_one_order, least_bottleneck
from solvers.piper.layers import layers_of
from solvers.piper.plan_model import too_many
from solvers.piper.problem_costs import problem_costs
from solvers.piper.spare import spend_spare_devices
from solvers.planners.chain_dp import memory_shares, micro_batch_choices, unsupported
from solvers.planners.pipedream import in_blocks
from solvers.problem import Objective, Pipeline, Problem, Transfers
from solvers.result import StopReason

WORTH = 1.15
"""A plan that takes longer than this many times the best known is not tried with more in flight."""


@dataclass(frozen=True)
class Piper:
    """The chain of stages with the least bottleneck per sample, over all chains of downsets.

    For every allowed number of micro-batches Piper's dynamic programme finds the stages, how many
    replicas each has and which recompute (where the problem allows it), with as many micro-batches in
    flight as stages follow. Communication adds to compute; where links run beside devices, the chain
    that is best if they never keep each other waiting is tried too. Where stages may differ in the size of
    their micro-batches, also Piper's own data parallelism: every replica takes whole micro-batches. The
    bottleneck is its own objective; plans are judged by the one asked for. There is no tensor
    parallelism in our problems (`plan_model` has it for Piper's own files).

    limit: of downsets, above which the published program gives up. layers: whether operators are then put
    together into layers with fewer (see `layers_of`), as Piper's inputs are layers; else it says no. slack: most
    micro-batches in flight beyond what its stages need that are tried.
    """

    name: ClassVar[str] = "piper"
    source: ClassVar[str] = "Tarnawski, Narayanan, Phanishayee, NeurIPS 2021, section 5"
    guarantee: ClassVar[str] = "heuristic"

    limit: int = LIMIT
    layers: bool = True
    slack: int = 2

    def __post_init__(self) -> None:
        for what, least in (("limit", 1), ("slack", 0)):
            if getattr(self, what) < least:
                raise ValueError(f"{what} must be at least {least}, found {getattr(self, what)}")

    def unsupported(self, problem: Problem) -> str | None:
        if not problem.cluster.accelerators:
            return "it plans pipelines of accelerators, and the cluster has none"
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        search = _Search(self, problem, monitor)
        try:
            search.run()
        finally:
            if search.downsets:
                monitor.note(f"piper: {search.downsets:,} downsets, {search.effort}")
        if search.gave_up:
            monitor.note(too_many(self.limit))
            raise Stop(StopReason.STATE_LIMIT)
        return False


class _Case(NamedTuple):
    """What a dynamic programme is for: see `problem_costs`."""

    samples: int
    whole: bool
    beside: bool
    merge: bool
    share: float


class _Search:
    """One call of the planner: what is shared between numbers of micro-batches."""

    def __init__(self, planner: Piper, problem: Problem, monitor: Monitor) -> None:
        self.planner, self.problem, self.monitor = planner, problem, monitor
        self.condensed = Condensed(problem, ordered=True)
        self.lattices: dict[Shape, Downsets | None] = {}
        self.effort, self.downsets, self.gave_up = Effort(), 0, False
        self._starts: dict[_Case, PiperSearch] = {}
        self._judged: dict[Draft, float] = {}

    def run(self) -> None:
        """Offer the best chain of every case: first of those that cut one order, which is soon done."""
        if self._lattice(self.condensed.at(self.problem.mini_batch).shape) is None:
            self._put_together()
        if self.gave_up:
            return
        bounds = {count: bound_with_s(self.problem, count) for count in micro_batch_choices(self.problem)}
        spread = len(self.problem.cluster) - 1
        counts = sorted(bounds, key=lambda c: bounds[c] * (c + spread) / c)  # with the time to fill and drain
        wholes = (False, True) if self.problem.mixed_micro_batches else (False,)
        besides = (False,) if self.problem.transfers is Transfers.BLOCKING else (False, True)
        modes = tuple(itertools.product(wholes, besides))
        for everywhere in (False, True):
            for count in counts:
                for whole, beside in modes:
                    if whole or bounds[count] < self.monitor.objective_s:
                        self._run(self.problem.mini_batch // count, whole, beside, everywhere=everywhere)

    def _put_together(self) -> None:
        """Plan layers in place of operators, if there is a way."""
        found = layers_of(self.problem, self.planner.limit, self.monitor.check) if self.planner.layers else None
        if found is None:
            self.gave_up = True
            return
        self.condensed = Condensed(in_blocks(self.problem, found.block), ordered=True)
        self.monitor.note(
            f"the operators have more than {self.planner.limit:,} downsets: they are planned as {found.count:,} layers"
        )

    def _run(self, samples: int, whole: bool, beside: bool, *, everywhere: bool) -> None:
        """Offer the best chain that fits. Merging trivial operators can cost memory, so the unmerged graph
        is tried if nothing fits."""
        merged = self.condensed.at(samples)
        for merge in (True, False) if merged.has_merged else (True,):
            shape = self.condensed.at(samples, merge_trivial=merge).shape
            downsets = self._lattice(shape) if everywhere else None
            if downsets is None and everywhere:
                self.gave_up = True
                return
            for share in memory_shares(self.problem):
                case = _Case(samples, whole, beside, merge, share)
                if self._offer(case, downsets) < math.inf:
                    return

    def _lattice(self, shape: Shape) -> Downsets | None:
        if shape not in self.lattices:
            self.lattices[shape] = downsets_of(shape, self.monitor.check, self.planner.limit)
        found = self.lattices[shape]
        self.downsets = max(self.downsets, 0 if found is None else len(found))
        return found

    def _search(self, case: _Case, costed: Costed, downsets: Downsets | None) -> PiperSearch:
        """The best chain of the downsets; without them, of one order."""
        start = self._starts.get(case)
        if start is None:
            self._starts[case] = start = in_one_order(costed, self.monitor.check)
            self.effort += start.effort
        if downsets is None:
            return start
        found = least_bottleneck(downsets, costed, self.monitor.check, start)
        self.effort += Effort(
            found.effort.states - start.effort.states, found.effort.relaxations - start.effort.relaxations
        )
        return found

    def _offer(self, case: _Case, downsets: Downsets | None) -> float:
        """The objective of the best chain, in seconds; inf if none fits."""
        costed = problem_costs(
            self.condensed, case.samples, whole=case.whole, beside=case.beside, merge_trivial=case.merge,
            memory_share=case.share,
        )  # fmt: skip
        if costed is None:
            return math.inf
        found = self._search(case, costed, downsets)
        best = math.inf
        floor_s = self._floor_s(costed, found.stages)
        if floor_s >= self.monitor.objective_s:
            return floor_s
        for chain in dict.fromkeys((found.stages, spend_spare_devices(costed, found.stages, self.monitor.check))):
            for row in self._drafts(case, costed, chain):
                last = math.inf
                for draft in row:
                    judged_s = self._judge(draft)
                    best = min(best, judged_s)
                    if judged_s >= last or judged_s > WORTH * self.monitor.objective_s:
                        break
                    last = judged_s
        return best

    def _floor_s(self, costed: Costed, chain: tuple[PiperStage, ...]) -> float:
        """Seconds an iteration of a chain takes at least: what its busiest stage computes; 0 for other objectives."""
        if self.problem.objective is not Objective.ITERATION:
            return 0.0
        busiest_s = max((float(costed.compute_s[s.option, list(s.nodes)].sum()) for s in chain), default=0.0)
        return busiest_s * self.problem.mini_batch * (1 - 1e-9)

    def _drafts(self, case: _Case, costed: Costed, chain: tuple[PiperStage, ...]) -> list[list[Draft]]:
        """A chain's drafts in two rows: each with what its stages need in flight, and with what they have in a
        chain, then with more and more; none without stages."""
        if not chain:
            return []
        members = self.condensed.at(case.samples, merge_trivial=case.merge).shape.members
        stages = []
        for stage in chain:
            replicas = int(costed.devices[stage.option])
            operators = tuple(sorted(o for node in stage.nodes for o in members[node]))
            size = case.samples * (replicas if case.whole else 1)
            stages.append(DraftStage(operators, size, replicas, bool(stage.recomputed)))
        if not self.problem.has_backward() or self.problem.pipeline is Pipeline.GPIPE:
            return [[Draft(tuple(stages))]]
        after = stage_successors(self.problem, [stage.operators for stage in stages])
        sizes = [stage.micro_batch_size for stage in stages]
        kept = in_flight_samples(after, sizes, [1] * len(stages), self.problem.mini_batch)
        in_chain = [max(s.flights - held // size, 0) for s, held, size in zip(chain, kept, sizes, strict=True)]
        rows = ([0] * len(stages), in_chain) if any(in_chain) else ([0] * len(stages),)
        return [
            [
                Draft(tuple(replace(stage, slack=own + more) for stage, own in zip(stages, row, strict=True)))
                for more in range(self.planner.slack + 1)
            ]
            for row in rows
        ]

    def _judge(self, draft: Draft) -> float:
        if draft not in self._judged:
            self.monitor.check()
            try:
                self._judged[draft] = self.monitor.offer(realise(self.problem, draft))
            except InvalidPlan:  # backward tensors that do not mirror forward ones flow round its stages
                self._judged[draft] = math.inf
        return self._judged[draft]
