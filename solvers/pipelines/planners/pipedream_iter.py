"""The best sequential pipeline for the iteration itself: cuts of linear orders, with replicas."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solvers.bounds.combinatorial import bound_with_s
from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.chains import topological_orders
from solvers.contiguous.planners.chain_dp import memory_shares, micro_batch_choices, unsupported
from solvers.pipelines.boundary_moves import improve
from solvers.pipelines.chain.iteration_chain import SIMULATED, Cut, CutSearch
from solvers.pipelines.chain.lines import cost_order, rules_of
from solvers.pipelines.costs import degrees_of
from solvers.pipelines.offers import NO_ACCELERATORS, offer_draft
from solvers.pipelines.planners.pipedream import PipeDream, in_blocks
from solvers.plan.drafts import Draft
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor
from solvers.search.work import Work

WORTH = 1.15
"""Cuts that take longer than this many times the best known are not improved."""
DOUBTFUL = 1.03
"""How far the simulation of stages may be above that of the plan."""
MOST_ACTIONS = 10_000
"""Of a plan whose boundaries are moved under the full simulation, which takes a second for more."""
MORE_FOR_THE_BEST = 5
"""Times as many rounds again for the best cut."""
CUTS_A_COUNT = 4
"""Cuts that are improved for each number of micro-batches."""


@dataclass(frozen=True)
class PipeDreamIteration:
    """A chain of stages with the least iteration time instead of the least bottleneck.

    PipeDream's setting (operators in a linear order, stages of consecutive ones, each on one device or
    data parallel on several) with the time of an iteration as the objective: (M - 1) t + L +
    synchronisation in 1F1B, t being the slowest stage's time and L the critical path of one micro-batch;
    with more in flight, the longest of M times a stage's time and the stages before it. For every number
    of micro-batches and several orders (branch after branch, branches in turn, mixed, and PipeDream's
    blocks) dynamic programmes over (operators, devices, stages that follow) find the best cut for the
    latter, and for the former the least L for a row of ceilings on t, as if every stage waited for the one
    before; the most promising cuts are improved by local moves on a simulation of their stages, and the
    best of them are offered.

    orders: how many linear orders. atoms: how many pieces an order is cut into at most. finalists: how
    many cuts are offered, after ``shakes`` rounds of random moves and descent each. slack: how
    many times what the rule asks for may be in flight beyond it, at most, where memory allows: transfers
    are hidden if neighbours differ by more than one. moves: whether boundaries are then moved under the
    full simulation.
    """

    name: ClassVar[str] = "pipedream-iter"
    source: ClassVar[str] = "PipeDream's chain (Narayanan et al., SOSP 2019), for the time of an iteration"
    guarantee: ClassVar[str] = "heuristic"

    orders: int = 4
    atoms: int = 200
    finalists: int = 6
    shakes: int = 10
    slack: int = 2
    moves: bool = True

    def __post_init__(self) -> None:
        for what, least in (("orders", 1), ("atoms", 1), ("finalists", 1), ("shakes", 0), ("slack", 0)):
            if getattr(self, what) < least:
                raise ValueError(f"{what} must be at least {least}, found {getattr(self, what)}")

    def unsupported(self, problem: Problem) -> str | None:
        if not problem.cluster.accelerators:
            return NO_ACCELERATORS
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        search = _Search(self, problem, monitor)
        for share in memory_shares(problem):
            search.run(share)
            if monitor.best is not None:
                break
        monitor.note(f"dynamic programme over chains: {search.effort}")
        if self.moves and monitor.best is not None and sum(map(len, monitor.best.order)) <= MOST_ACTIONS:
            monitor.begin("moving operators across stage boundaries")
            improve(problem, monitor)
        return False


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """One linear order at one number of micro-batches."""

    condensed: Condensed
    contracted: Contracted
    nodes: tuple[int, ...]
    micro_batches: int


def _most_promising(found: list[tuple[Cut, _Row, CutSearch]], most_s: float) -> list[tuple[Cut, _Row, CutSearch]]:
    """Of every number of micro-batches the best cuts, if they take at most ``most_s``; the best first."""
    found.sort(key=lambda each: each[0].iteration_s)
    chosen = []
    seen: dict[int, int] = {}
    for cut, row, search in found:
        taken = seen.get(row.micro_batches, 0)
        if cut.iteration_s <= most_s and taken < CUTS_A_COUNT:
            seen[row.micro_batches] = taken + 1
            chosen.append((cut, row, search))
    return chosen


class _Search:
    def __init__(self, planner: PipeDreamIteration, problem: Problem, monitor: Monitor) -> None:
        self.planner, self.problem, self.monitor = planner, problem, monitor
        self.slack = planner.slack if problem.may_run_ahead else 0
        self.effort = Work()
        # PipeDream's blocks keep a branch whole, and leave fewer places to cut.
        blocks = in_blocks(problem, PipeDream().blocks(problem, monitor.check))
        self.views = (Condensed(problem, ordered=True), Condensed(blocks, ordered=True))

    def run(self, share: float) -> None:
        """Offer the best cuts planned for this share of the devices' memory."""
        found: list[tuple[Cut, _Row, CutSearch]] = []
        best_s = self.monitor.objective_s
        for row in self._rows():
            if bound_with_s(self.problem, row.micro_batches) >= best_s:
                continue
            search = self._searcher(row, share, self.planner.atoms)
            for cut in search.candidates(best_s * WORTH):
                found.append((cut, row, search))
                best_s = min(best_s, cut.iteration_s)
            self.effort += search.effort
        if found:  # people see it while it is improved
            first, _, search = min(found, key=lambda each: each[0].iteration_s)
            self._offer(search, first)
        refined = []
        for cut, row, search in _most_promising(found, best_s * WORTH):
            refined.append((search.descend(cut, self.slack), row, search))
        refined.sort(key=lambda each: each[0].iteration_s)
        finalists = []
        for cut, row, search in refined[: self.planner.finalists]:
            fine, at = self._fine(row, share, search, cut)
            at = fine.descend(at, self.slack)
            finalists.append((fine.shake(at, self.slack, self.planner.shakes, self.monitor.rng), fine))
        finalists.sort(key=lambda each: each[0].iteration_s)
        if finalists:
            cut, search = finalists[0]
            more = MORE_FOR_THE_BEST * self.planner.shakes
            search.left = SIMULATED
            finalists[0] = search.shake(cut, self.slack, more, self.monitor.rng), search
        for cut, search in finalists:
            if cut.iteration_s > self.monitor.objective_s * DOUBTFUL:
                break
            if math.isinf(self._offer(search, cut)) and cut.slack:
                self._offer(search, search.judged(cut.stages, 0))

    def _rows(self) -> Iterator[_Row]:
        for count in micro_batch_choices(self.problem):
            for view, condensed in enumerate(self.views):
                contracted = condensed.at(self.problem.mini_batch // count)
                if not contracted.supported.all():
                    continue
                for order in topological_orders(contracted.shape, 1 if view else self.planner.orders):
                    self.monitor.check()
                    yield _Row(condensed, contracted, tuple(order[::-1].tolist()), count)

    def _searcher(self, row: _Row, share: float, atoms: int) -> CutSearch:
        degrees = degrees_of(self.problem, row.contracted.samples)
        order = cost_order(row.condensed, row.contracted, row.nodes, atoms, degrees)
        rules = rules_of(self.problem, row.micro_batches, memory_share=share)
        return CutSearch(order, rules, self.monitor.check, min(1, self.slack))

    def _fine(self, row: _Row, share: float, coarse: CutSearch, cut: Cut) -> tuple[CutSearch, Cut]:
        """The same cut of the same order, now in atoms that are single super-operators."""
        if len(coarse.order.atoms) == len(row.nodes):
            return coarse, cut
        fine = self._searcher(row, share, len(row.nodes))
        ends = np.cumsum([len(atom) for atom in coarse.order.atoms])
        fine_ends = np.cumsum([len(atom) for atom in fine.order.atoms])
        stages, begin = [], 0
        for _, end, degree in cut.stages:
            until = int(np.searchsorted(fine_ends, ends[end - 1])) + 1
            stages.append((begin, until, degree))
            begin = until
        return fine, fine.judged(tuple(stages), cut.slack)

    def _offer(self, search: CutSearch, cut: Cut) -> float:
        if math.isinf(cut.iteration_s):
            return math.inf
        return offer_draft(self.problem, self.monitor, Draft(search.draft(cut)))
