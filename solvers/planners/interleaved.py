"""Several stages a device, in turn: shorter bubbles for more transfers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.bounds import bound_with_s
from solvers.chains import best_linear_chain, costs_of, limits_of, topological_orders
from solvers.coarsen import Condensed
from solvers.contracted import Contracted, Shape
from solvers.drafts import Draft, DraftStage, realise
from solvers.errors import InvalidPlan
from solvers.interleaving import textbook_keeps
from solvers.kernels.downset_walk import Limits
from solvers.monitor import Monitor
from solvers.planners.chain_dp import memory_shares, unsupported
from solvers.problem import Objective, Pipeline, Problem

Ints = NDArray[np.int64]
Cuts = tuple[int, ...]
"""Where an order of super-operators is cut, ends included."""

CHUNKS = (1, 2, 3, 4, 6, 8)
"""Stages per device that are tried; one is a pipeline that is not interleaved."""
STEPS = (1, 2, 4, 8)
"""Super-operators that one move takes across a cut."""
LEAST_GAIN = 1e-3
"""A relative gain below this is not worth another round of moves."""


@dataclass(frozen=True)
class Interleaved:
    """Stages dealt out to the devices in turn, cut where the longest is shortest.

    For every allowed number of micro-batches and of stages per device, the cut of ``orders`` topological
    orders into that many times as many parts as there are accelerators, with the least largest part; part i
    runs on device i modulo devices, without replicas. All are judged by simulation; then cuts of the best
    move as long as that helps. chunks: stages per device, 0 tries several.
    """

    name: ClassVar[str] = "interleaved"
    source: ClassVar[str] = "Narayanan et al., SC 2021, section 2.2 (Megatron-LM's interleaved schedule)"
    guarantee: ClassVar[str] = "heuristic"

    chunks: int = 0
    orders: int = 4
    improve: bool = True

    def unsupported(self, problem: Problem) -> str | None:
        if problem.pipeline is not Pipeline.INTERLEAVED:
            return (
                f"it gives devices several stages, and the pipeline asked for is {problem.pipeline.value};"
                " use --pipeline interleaved"
            )
        if problem.objective is not Objective.ITERATION:
            return f"it shortens iterations, and the objective is {problem.objective.value}; use auto"
        if not problem.cluster.accelerators:
            return "it deals stages out to accelerators, and the cluster has none"
        if self.chunks < 0:
            return f"chunks must be at least 1, or 0 to try several, found {self.chunks}"
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        search = _Search(problem, monitor, self.orders)
        bounds = {count: bound_with_s(problem, count) for count in problem.micro_batch_choices()}
        for count in sorted(bounds, key=bounds.__getitem__):
            for chunks in (self.chunks,) if self.chunks else CHUNKS:
                monitor.check()
                if bounds[count] < monitor.objective_s:
                    search.offer_best(count, chunks)
        if self.improve:
            search.improve()
        return False


@dataclass(frozen=True, slots=True)
class _Cut:
    """Consecutive parts of an order, for one number of micro-batches."""

    micro_batches: int
    order: tuple[int, ...]
    cuts: Cuts


class _Search:
    """One call of the planner: orders, what was offered, and the best of it."""

    def __init__(self, problem: Problem, monitor: Monitor, orders: int) -> None:
        self.problem, self.monitor, self.orders = problem, monitor, orders
        self.condensed = Condensed(problem, ordered=True)
        self.judged_s: dict[_Cut, float] = {}
        self._orders: dict[Shape, list[Ints]] = {}

    def offer_best(self, micro_batches: int, chunks: int) -> None:
        """Offer the cut into ``chunks`` parts per accelerator whose largest part is least, for the largest
        share of the memory with which it fits."""
        contracted = self._contracted(micro_batches)
        if len(contracted) < chunks * len(self.problem.cluster.accelerators) and chunks > 1:
            return
        if contracted.shape not in self._orders:
            self._orders[contracted.shape] = topological_orders(contracted.shape, self.orders)
        for share in memory_shares(self.problem):
            limits = self._limits(contracted, micro_batches, chunks, share)
            best_s, best = np.inf, None
            for order in self._orders[contracted.shape]:
                chain = best_linear_chain(costs_of(contracted), limits, [order], self.monitor.check)
                if chain.load_s < best_s:
                    forward = tuple(order[::-1].tolist())
                    cuts = np.cumsum([0, *(len(part.nodes) for part in chain.parts)])
                    best_s, best = chain.load_s, _Cut(micro_batches, forward, tuple(cuts.tolist()))
            if best is not None and self.offer(best) < np.inf:
                return

    def offer(self, cut: _Cut) -> float:
        """Have a cut judged, once; its objective in seconds, inf if it does not fit."""
        if cut not in self.judged_s:
            try:
                plan = realise(self.problem, self._draft(cut), self._devices(len(cut.cuts) - 1))
                self.judged_s[cut] = self.monitor.offer(plan)
            except InvalidPlan:  # backward tensors that do not mirror forward ones flow round its stages
                self.judged_s[cut] = np.inf
        return self.judged_s[cut]

    def improve(self) -> None:
        """Move the cuts of the best as long as that helps."""
        while self.judged_s:
            best = min(self.judged_s, key=self.judged_s.__getitem__)
            before_s = self.judged_s[best]
            if before_s == np.inf:
                return
            for cut in _moved(best):
                self.monitor.check()
                if self.offer(cut) < before_s * (1 - LEAST_GAIN):
                    break
            else:
                return

    def _contracted(self, micro_batches: int) -> Contracted:
        return self.condensed.at(self.problem.mini_batch // micro_batches)

    def _limits(self, contracted: Contracted, micro_batches: int, chunks: int, share: float) -> Limits:
        """Those of a chain of virtual accelerators, each with its part of a device's memory."""
        devices = len(self.problem.cluster.accelerators)
        keeps = [1, *reversed(textbook_keeps(devices, chunks, micro_batches)), 1]
        if not self.problem.has_backward():
            keeps = [1] * len(keeps)
        limits = limits_of(self.problem, contracted, micro_batches, share / chunks)
        return limits._replace(accelerators=devices * chunks, cpus=0, in_flight=np.array(keeps, np.float64))

    def _draft(self, cut: _Cut) -> Draft:
        members = self._contracted(cut.micro_batches).shape.members
        size = self.problem.mini_batch // cut.micro_batches
        parts = [cut.order[a:b] for a, b in zip(cut.cuts, cut.cuts[1:], strict=False)]
        return Draft(tuple(DraftStage(tuple(o for node in part for o in members[node]), size) for part in parts))

    def _devices(self, parts: int) -> Sequence[tuple[int, ...]]:
        accelerators = self.problem.cluster.accelerators
        return [(accelerators[part % len(accelerators)],) for part in range(parts)]


def _moved(cut: _Cut) -> Iterator[_Cut]:
    """Cuts that differ in one place; no part becomes empty."""
    for place in range(1, len(cut.cuts) - 1):
        for step in STEPS:
            for to in (cut.cuts[place] - step, cut.cuts[place] + step):
                if cut.cuts[place - 1] < to < cut.cuts[place + 1]:
                    yield _Cut(cut.micro_batches, cut.order, (*cut.cuts[:place], to, *cut.cuts[place + 1 :]))
