"""Piper: the least bottleneck over downsets, replicas and recomputation, for a sequential pipeline."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Shape
from solvers.contiguous.downsets import Downsets
from solvers.contiguous.planners.chain_dp import memory_shares, micro_batch_choices
from solvers.pipelines.offers import likely_counts, unsupported
from solvers.pipelines.piper.costed import Costed
from solvers.pipelines.piper.dp import LIMIT, PiperSearch, downsets_of, in_one_order, least_bottleneck, too_many
from solvers.pipelines.piper.layers import layers_of
from solvers.pipelines.piper.problem_costs import problem_costs
from solvers.pipelines.piper.spare import spend_spare_devices
from solvers.pipelines.planners.pipedream import in_blocks
from solvers.pipelines.planners.piper_judge import Judge, PiperChain
from solvers.plan.result import StopReason
from solvers.problem.problem import Problem, Transfers
from solvers.search.monitor import Monitor, Stop
from solvers.search.planner import at_least
from solvers.search.work import Work

FIRST = 2
"""How many chains that cut one order are judged before the search of all."""


@dataclass(frozen=True)
class Piper:
    """The chain of stages with the least bottleneck per sample, over all chains of downsets.

    For every allowed number of micro-batches Piper's dynamic program finds the stages, how many
    replicas each has and which recompute (where the problem allows it), with as many micro-batches in
    flight as stages follow. Communication adds to compute; where links run beside devices, the chain
    that is best if they never keep each other waiting is tried too. Where stages may differ in the size of
    their micro-batches, also Piper's own data parallelism: every replica takes whole micro-batches. The
    bottleneck is its own objective; plans are judged by the one asked for. There is no tensor
    parallelism in our problems (`tests/reproductions` has it, for Piper's own files).

    limit: of downsets, above which the published program gives up. layers: whether operators are then put
    together into layers with fewer (see `layers_of`), as Piper's inputs are layers; else it says no. finalists:
    how many chains, of all numbers of micro-batches, are judged. slack: most micro-batches in flight beyond
    what its stages need that are tried.
    """

    name: ClassVar[str] = "piper"
    source: ClassVar[str] = "Tarnawski, Narayanan, Phanishayee, NeurIPS 2021, section 5"
    guarantee: ClassVar[str] = "heuristic"

    limit: int = LIMIT
    layers: bool = True
    finalists: int = 8
    slack: int = 2

    def __post_init__(self) -> None:
        at_least(self, {"limit": 1, "finalists": 1, "slack": 0})

    def unsupported(self, problem: Problem) -> str | None:
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
    """What a dynamic program is for: see `problem_costs`."""

    samples: int
    whole: bool
    beside: bool
    merge: bool
    share: float


Chains = tuple[float, tuple[PiperChain, ...]]
"""The chains found for a case, and the least that one of them is estimated to take."""


class _Search:
    """One call of the planner: what is shared between numbers of micro-batches."""

    def __init__(self, planner: Piper, problem: Problem, monitor: Monitor) -> None:
        self.planner, self.problem, self.monitor = planner, problem, monitor
        self.condensed = Condensed(problem, ordered=True)
        self.judge = Judge(problem, monitor, planner.slack if problem.may_run_ahead else 0)
        self.lattices: dict[Shape, Downsets | None] = {}
        self.effort, self.downsets, self.gave_up = Work(), 0, False
        self._starts: dict[_Case, PiperSearch] = {}

    def run(self) -> None:
        """Offer the best chains: first some of those that cut one order, which is soon done, then of all."""
        if self._lattice(self.condensed.at(self.problem.mini_batch).shape) is None:
            self._put_together()
        if self.gave_up:
            return
        for everywhere in (False, True):
            self._run(everywhere)

    def _put_together(self) -> None:
        """Plan layers in place of operators, if there is a way."""
        layers = layers_of(self.problem, self.planner.limit, self.monitor.check) if self.planner.layers else None
        if layers is None:
            self.gave_up = True
            return
        self.condensed = Condensed(in_blocks(self.problem, layers.block), ordered=True)
        self.monitor.note(
            f"the operators have more than {self.planner.limit:,} downsets: they are planned as {layers.count:,} layers"
        )

    def _run(self, everywhere: bool) -> None:
        """Find the best chain for every number of micro-batches and every meaning of the bottleneck, and have
        the most promising judged. Where nothing of a case fits, its next variant takes its place."""
        waiting: list[tuple[float, int, tuple[PiperChain, ...], Iterator[Chains]]] = []
        for number, cases in enumerate(self._cases(everywhere)):
            variants = self._chains(cases, everywhere)
            if (first := next(variants, None)) is not None:
                heapq.heappush(waiting, (first[0], number, first[1], variants))
        judged = 0
        while waiting and judged < (self.planner.finalists if everywhere else FIRST):
            judged += self._judge_next(waiting)

    def _judge_next(self, waiting: list[tuple[float, int, tuple[PiperChain, ...], Iterator[Chains]]]) -> bool:
        """Judge the chains that wait with the least estimate, if any; whether one fits. Hopeless ones are dropped."""
        if not waiting:
            return False
        _, number, chains, variants = heapq.heappop(waiting)
        if min(chain.floor_s(self.problem) for chain in chains) >= self.monitor.objective_s:
            return False
        if min(self.judge.best_s(chain) for chain in chains) < math.inf:
            return True
        if (then := next(variants, None)) is not None:
            heapq.heappush(waiting, (then[0], number, then[1], variants))
        return False

    def _cases(self, everywhere: bool) -> Iterator[tuple[_Case, ...]]:
        """For every number of micro-batches and meaning of the bottleneck, the cases to try until a plan fits."""
        counts = likely_counts(self.problem, micro_batch_choices(self.problem))
        wholes = (False, True) if self.problem.mixed_micro_batches else (False,)
        besides = (False, True) if everywhere and self.problem.transfers is not Transfers.BLOCKING else (False,)
        for (count, bound_s, _), whole, beside in itertools.product(counts, wholes, besides):
            if whole or bound_s < self.monitor.objective_s:
                samples = self.problem.mini_batch // count
                # Merging trivial operators can cost memory.
                merges = (True, False) if self.condensed.at(samples).has_merged else (True,)
                yield tuple(
                    _Case(samples, whole, beside, merge, share)
                    for merge, share in itertools.product(merges, memory_shares(self.problem))
                )

    def _chains(self, cases: tuple[_Case, ...], everywhere: bool) -> Iterator[Chains]:
        """The best chain of each case that has one, and what it becomes with the devices it leaves over."""
        for case in cases:
            contracted = self.condensed.at(case.samples, merge_trivial=case.merge)
            downsets = self._lattice(contracted.shape) if everywhere else None
            if downsets is None and everywhere:
                self.gave_up = True
                continue
            costed = problem_costs(
                self.condensed, case.samples, whole=case.whole, beside=case.beside, merge_trivial=case.merge,
                memory_share=case.share,
            )  # fmt: skip
            if costed is None:
                continue
            result = self._search(case, costed, downsets)
            if not result.stages:
                continue
            more = spend_spare_devices(costed, result.stages, self.monitor.check)
            chains = []
            for stages in dict.fromkeys((result.stages, more)):
                replicas = tuple(int(costed.costs.devices[stage.option]) for stage in stages)
                chains.append(PiperChain(stages, replicas, case.samples, case.whole, contracted.shape))
            yield min(chain.estimate_s(self.problem) for chain in chains), tuple(chains)

    def _lattice(self, shape: Shape) -> Downsets | None:
        if shape not in self.lattices:
            self.lattices[shape] = downsets_of(shape, self.monitor.check, self.planner.limit)
        downsets = self.lattices[shape]
        self.downsets = max(self.downsets, 0 if downsets is None else len(downsets))
        return downsets

    def _search(self, case: _Case, costed: Costed, downsets: Downsets | None) -> PiperSearch:
        """The best chain of the downsets; without them, of one order."""
        start = self._starts.get(case)
        if start is None:
            self._starts[case] = start = in_one_order(costed, self.monitor.check)
            self.effort += start.effort
        if downsets is None:
            return start
        result = least_bottleneck(downsets, costed, self.monitor.check, start)
        self.effort += Work(
            result.effort.states - start.effort.states, result.effort.relaxations - start.effort.relaxations
        )
        return result
