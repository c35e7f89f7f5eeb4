"""The exact dynamic program over downsets, for max-load with contiguous devices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted, Shape
from solvers.contiguous.chains import NO_CHAIN
from solvers.contiguous.downsets import Downsets, enumerate_downsets, suffix_order
from solvers.contiguous.planners.chain_dp import (
    LinearStarts,
    memory_shares,
    micro_batch_choices,
    offer_chain,
    unsupported_chain,
)
from solvers.plan.result import StopReason
from solvers.problem.problem import Contiguity, Objective, Problem
from solvers.search.monitor import PROVED, Monitor, Stop, at_most


@dataclass(frozen=True)
class DownsetDP:
    """Optimal max-load over chains of downsets, for every allowed number of micro-batches.

    Exact with CPUs, operators an accelerator cannot run and stated memory, for blocking, overlapped
    and duplex transfers, and for the two training objectives: the largest sum of both passes, or with
    GPipe the sum of the largest of each. If a stage may be replicated, the chains searched are those
    whose parts have one device, or up to ``max_replicas`` accelerators of one kind to themselves. Accelerators may
    be of several kinds and memories: a state then counts those in use of each, of which there may be `MOST_STATES`
    combinations. Where memory is
    counted from the schedule, a plan that memory has shaped is proved only if its load equals the
    optimum without caps. For other objectives, other contiguity, devices of several stages (INTERLEAVED), or
    micro-batches of several sizes its plans are offered and nothing is claimed. With more than
    ``downset_budget`` downsets the linearised program's plan stands. work: pieces of work of a few hundredths of a
    second after which the search ends, 0 for any number.
    """

    name: ClassVar[str] = "downset-dp"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 5.1"
    guarantee: ClassVar[str] = "exact"

    downset_budget: int = 3_000_000
    work: int = 0

    def unsupported(self, problem: Problem) -> str | None:
        if not problem.transfers_alike:
            return "links must all be equally fast, found several speeds; use local-search or auto"
        return unsupported_chain(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        if not self.work:
            return self._run(problem, monitor)
        try:
            with at_most(monitor, self.work):
                return self._run(problem, monitor)
        except Stop as stop:
            if stop.reason is StopReason.STATE_LIMIT:
                monitor.note("the exact search over downsets ended at its limit of work, without a proof")
            raise

    def _run(self, problem: Problem, monitor: Monitor) -> bool:
        search = _Search(problem, monitor, self.downset_budget)
        choices = micro_batch_choices(problem)
        # Every number of micro-batches has a bound from the start, so that a search that is
        # interrupted still leaves a valid one: the least of them.
        for count in choices:
            search.bound_s[count] = search.average_s(count)
        search.raise_bound()
        for count in choices:
            search.linear_s[count] = search.starts.offer(count)
        # The most promising first: their plans let the others be cut short, and if time runs out it
        # was well spent.
        for count in sorted(choices, key=search.starts.judged_s.__getitem__):
            search.run(count)
            search.raise_bound()
        return search.conclude()


class _Search:
    """One call of the planner: what is shared between numbers of micro-batches."""

    def __init__(self, problem: Problem, monitor: Monitor, budget: int) -> None:
        self.problem, self.monitor, self.budget = problem, monitor, budget
        self.condensed = Condensed(problem, ordered=True)
        self.starts = LinearStarts(problem, monitor, self.condensed, orders=8)
        self.bound_s: dict[int, float] = {}
        self.linear_s: dict[int, float] = {}
        self.over_budget = False
        self.lattices: dict[Shape, Downsets | None] = {}
        # Whether the load searched for is the objective asked for, over the same set of plans.
        contiguous = problem.contiguity is Contiguity.ACYCLIC and not problem.by_stage
        self.own = problem.objective is Objective.MAX_LOAD and contiguous and problem.sizes_alike
        # Replicas are costed with the slowest link of all, which is not the one they use where links differ.
        speeds = {(link.latency_s, link.bandwidth_bytes_per_s) for link in problem.cluster.speeds}
        self.own &= problem.max_replicas == 1 or not problem.training or len(speeds) <= 1
        groups = (*self.starts.search.ways.classes, problem.cluster.cpus)
        equal_memory = all(len({problem.cluster.devices[d].memory_bytes for d in devices}) <= 1 for devices in groups)
        self.exact_memory = problem.stated_bytes is not None and equal_memory

    def average_s(self, micro_batches: int) -> float:
        return self.starts.search.least_load_s(self._contracted(micro_batches), micro_batches)

    def raise_bound(self) -> None:
        least = min(self.bound_s.values())
        if self.own and math.isfinite(least):
            self.monitor.raise_bound(least)

    def conclude(self) -> bool:
        """Whether the search space was covered: the best plan's objective is the bound proved."""
        least = min(self.bound_s.values())
        if self.own and math.isinf(least):
            self.monitor.prove_infeasible("no cut of the graph into consecutive parts fits the devices' memory")
            return True
        if self.own and self.monitor.objective_s <= least * (1 + PROVED):
            return True
        if self.over_budget:
            raise Stop(StopReason.STATE_LIMIT)
        return False

    def run(self, micro_batches: int) -> None:
        """Search one number of micro-batches; offer its best chain and set its bound."""
        merged = self._contracted(micro_batches)
        if self.own and self.bound_s[micro_batches] >= self.monitor.objective_s:
            return
        value = self._search(merged, micro_batches, "all", offer=True)
        if value is None:
            return
        load_s, short = value
        if not short or (self.exact_memory and not merged.has_merged):
            self._raise(micro_batches, load_s)
            return
        # Memory turned something away. What no cap, or only the operators that could not have gone
        # elsewhere, would allow is a bound; often it is the same.
        loosest = self._search(merged, micro_batches, "core" if self.exact_memory else "none", below_s=load_s)
        if loosest is not None:
            self._raise(micro_batches, loosest[0])
        if self.exact_memory and loosest is not None and loosest[0] < load_s:
            unmerged = self._contracted(micro_batches, merge_trivial=False)
            exact = self._search(unmerged, micro_batches, "all", below_s=load_s, offer=True)
            if exact is not None:
                self._raise(micro_batches, exact[0])

    def _raise(self, micro_batches: int, bound_s: float) -> None:
        self.bound_s[micro_batches] = max(bound_s, self.bound_s[micro_batches])

    def _contracted(self, micro_batches: int, *, merge_trivial: bool = True) -> Contracted:
        return self.condensed.at(self.problem.mini_batch // micro_batches, merge_trivial=merge_trivial)

    def _search(
        self, contracted: Contracted, micro_batches: int, memory: str, *, below_s: float = math.inf, offer: bool = False
    ) -> tuple[float, bool] | None:
        """(load no chain beats under these caps, whether memory turned a set away); None over budget.

        Only chains below ``below_s``, the linear chain and (if it is a max-load) the objective are of
        interest, so no more than these is returned.
        """
        downsets = self._downsets(contracted.shape)
        if downsets is None:
            return None
        below_s = min(below_s, self.linear_s[micro_batches])
        if self.own:
            below_s = min(below_s, self.monitor.objective_s)
        search = self.starts.search
        outcome = search.exact(downsets, contracted, micro_batches, below_s, memory=memory)
        load_s = min(outcome.chain.load_s, below_s)
        if offer and outcome.chain is not NO_CHAIN:
            # Counted memory has buffers that the search leaves out: plan for less until a plan fits.
            chain = outcome.chain
            for share in memory_shares(self.problem):
                if share < 1:
                    chain = search.exact(downsets, contracted, micro_batches, below_s, memory_share=share).chain
                if offer_chain(self.problem, self.monitor, contracted, chain, micro_batches) < math.inf:
                    break
        return load_s, outcome.memory_was_short

    def _downsets(self, shape: Shape) -> Downsets | None:
        budget = min(self.budget, self.starts.search.most_downsets)
        if shape not in self.lattices:
            self.lattices[shape] = enumerate_downsets(suffix_order(shape), budget, self.monitor.check)
            if self.lattices[shape] is None:
                self.over_budget = True
                self.monitor.note(
                    f"the graph has more than {budget:,} downsets, too many for the exact search;"
                    " the best cut of a few topological orders stands"
                )
        return self.lattices[shape]
