"""DPL: the best cut of a few topological orders into consecutive parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from solvers.bounds.combinatorial import bound_with_s
from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted, Shape
from solvers.contiguous.chain_search import ChainSearch
from solvers.contiguous.chains import Chain, Part, iteration_floor_s, placements_of, topological_orders
from solvers.contiguous.variants import Variant, variant_of
from solvers.contiguous.ways import too_many
from solvers.errors import InvalidPlan
from solvers.problem.problem import Objective, Problem, Transfers
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor

MEMORY_SHARES = (1.0, 0.9, 0.8, 0.65, 0.5)
"""Shares of the memory caps to plan for, in turn, until a plan fits: what is counted from the simulated
schedule also has receive buffers and, in inference, live activations, which the search leaves out."""


def unsupported(problem: Problem) -> str | None:
    """What no planner of chains can represent, or None."""
    for accelerators in (True, False):
        devices = [d for d in problem.cluster.devices if d.is_cpu != accelerators]
        if len({d.kind for d in devices}) > 1:
            kinds = ", ".join(sorted({d.kind for d in devices}))
            return f"accelerators must be of one kind, found {kinds}; use auto"
    if problem.pins:
        return "operators pinned to a device; use local-search or auto, or remove the pins"
    return None


def unsupported_chain(problem: Problem) -> str | None:
    """What the dynamic programs over chains cannot represent, or None: they distinguish kinds of accelerators."""
    if problem.pins:
        return "operators pinned to a device; use local-search or auto, or remove the pins"
    return too_many(problem, variant_of(problem).replicas)


def memory_shares(problem: Problem) -> tuple[float, ...]:
    """Shares of the caps worth trying: stated sizes are counted as the search counts them."""
    return MEMORY_SHARES if problem.stated_bytes is None else (1.0,)


def micro_batch_choices(problem: Problem) -> tuple[int, ...]:
    """Numbers of micro-batches to search; a single pass is never split."""
    return (1,) if problem.objective is Objective.MAKESPAN else problem.micro_batch_choices()


def offer_chain(problem: Problem, monitor: Monitor, contracted: Contracted, chain: Chain, micro_batches: int) -> float:
    """Have a chain judged; its objective in seconds, inf if there is none, it does not fit or cannot run.

    Of one that is the best so far, other mappings to nodes are judged too.
    """
    if not chain.parts:
        return np.inf
    least = np.inf
    for placement in placements_of(problem, contracted, chain):
        try:
            plan = assemble(problem, placement, micro_batches)
        except InvalidPlan:  # backward tensors that do not mirror forward ones make its stages cyclic
            return np.inf
        least = min(least, monitor.offer(plan))
        if least > monitor.objective_s:
            break
    return least


@dataclass(frozen=True)
class LinearDP:
    """Linearised dynamic program: fast, and often optimal for a chain of stages.

    For every allowed number of micro-batches, the cut with the least max-load over ``orders``
    topological orders, in every variant of max-load that `DownsetDP` knows. That is its own
    objective; plans are judged by the one asked for.
    """

    name: ClassVar[str] = "linear-dp"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 5.1 (DPL)"
    guarantee: ClassVar[str] = "heuristic"

    orders: int = 8

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported_chain(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        condensed = Condensed(problem, ordered=True)
        starts = LinearStarts(problem, monitor, condensed, self.orders)
        bounds = {count: bound_with_s(problem, count) for count in micro_batch_choices(problem)}
        spread = len(problem.cluster) - 1
        for count in sorted(bounds, key=lambda c: bounds[c] * (c + spread) / c):  # with the time to fill and drain
            if bounds[count] < monitor.objective_s:
                starts.offer(count)
        return False


class LinearStarts:
    """Offers linear chains for one number of micro-batches after another; orders are kept."""

    def __init__(self, problem: Problem, monitor: Monitor, condensed: Condensed, orders: int) -> None:
        self.problem, self.monitor, self.condensed, self.orders = problem, monitor, condensed, orders
        self.search = ChainSearch(condensed, monitor.check)
        self.judged_s: dict[int, float] = {}
        """Objective of the plan found for each number of micro-batches; inf without one."""
        self._orders: dict[Shape, list[NDArray[np.int64]]] = {}
        self._offered: dict[tuple[int, tuple[Part, ...]], float] = {}

    def offer(self, micro_batches: int) -> float:
        """The load of the best linear chain that fits, in seconds per sample; inf without one.

        Merging trivial operators can cost memory, so the unmerged graph is tried if nothing fits.
        """
        self.judged_s[micro_batches] = np.inf
        samples = self.problem.mini_batch // micro_batches
        merged = self.condensed.at(samples)
        load_s = self._offer(merged, micro_batches)
        if np.isinf(load_s) and merged.has_merged:
            load_s = self._offer(self.condensed.at(samples, merge_trivial=False), micro_batches)
        return load_s

    def _offer(self, contracted: Contracted, micro_batches: int) -> float:
        shape = contracted.shape
        if shape not in self._orders:
            self._orders[shape] = topological_orders(shape, self.orders)
        for variant in self._stand_ins():
            self._fit(contracted, micro_batches, variant)
        return self._fit(contracted, micro_batches, self.search.variant)

    def _stand_ins(self) -> list[Variant]:
        """Other max-loads whose best chain may be better for an objective that is none: with transfers
        beside a device's compute, and without replicas."""
        own = self.search.variant
        if self.problem.objective is Objective.MAX_LOAD:
            return []
        beside = own if self.problem.transfers is Transfers.BLOCKING else replace(own, transfers=Transfers.LANE)
        choices = [replace(variant, replicas=r) for r in sorted({1, own.replicas}) for variant in (beside, own)]
        return [variant for variant in dict.fromkeys(choices) if variant != own]

    def _hopeless(self, contracted: Contracted, chain: Chain) -> bool:
        """Whether the chain's iteration, transfers and bubbles left out, takes longer than one known."""
        several = len({self.problem.cluster.devices[d].kind for d in self.problem.cluster.accelerators}) > 1
        if self.problem.objective is not Objective.ITERATION or not chain.parts or several:
            return False
        return iteration_floor_s(self.problem, contracted, chain) >= self.monitor.objective_s

    def _fit(self, contracted: Contracted, micro_batches: int, variant: Variant) -> float:
        """Offer the best chain for a variant of max-load that fits."""
        orders = self._orders[contracted.shape]
        for share in memory_shares(self.problem):
            chain = self.search.linear(contracted, orders, micro_batches, variant, memory_share=share)
            if self._hopeless(contracted, chain):
                return chain.load_s
            key = (micro_batches, chain.parts)
            if key not in self._offered:
                self._offered[key] = offer_chain(self.problem, self.monitor, contracted, chain, micro_batches)
            judged_s = self._offered[key]
            if judged_s < np.inf:
                self.judged_s[micro_batches] = min(judged_s, self.judged_s[micro_batches])
                return chain.load_s
        return np.inf
