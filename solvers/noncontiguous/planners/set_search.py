"""What the planners that move super-operators between devices share: costs, starts and offers."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.chain_search import ChainSearch
from solvers.contiguous.chains import placement_of, topological_orders
from solvers.contiguous.planners.chain_dp import micro_batch_choices
from solvers.errors import InvalidPlan
from solvers.kernels.arrays import Ints
from solvers.noncontiguous.set_moves_kernel import ANY, Sets
from solvers.noncontiguous.sets import in_flight_choices, plan_of, sets_of, where_of
from solvers.plan.plan import Plan
from solvers.problem.problem import Contiguity, Problem
from solvers.search.monitor import Monitor

MOST_DEVICES = 62
"""The kernels keep sets of devices in one word."""


def unsupported(problem: Problem) -> str | None:
    """What no planner of sets can represent, or None."""
    for accelerators in (True, False):
        kinds = {d.kind for d in problem.cluster.devices if d.is_cpu != accelerators}
        if len(kinds) > 1:
            return f"accelerators must be of one kind, found {', '.join(sorted(kinds))}; use auto"
    if len(problem.cluster) > MOST_DEVICES:
        return f"at most {MOST_DEVICES} devices, found {len(problem.cluster)}; use downset-dp"
    return None


class Ground:
    """One number of micro-batches: its super-operators, and what plans of them come to.

    Where memory is counted from the schedule it is only estimated here: a plan that turns out not to
    fit makes the estimate stricter (``sets`` changes), until no stricter one is left.
    """

    def __init__(self, problem: Problem, monitor: Monitor, condensed: Condensed, micro_batches: int) -> None:
        self.problem, self.monitor, self.condensed, self.micro_batches = problem, monitor, condensed, micro_batches
        # Trivial operators stay apart: merged, they would take their memory along.
        self.contracted = condensed.at(problem.mini_batch // micro_batches, merge_trivial=False)
        self._estimates = in_flight_choices(problem, micro_batches)
        self.refusals = 0
        """Placements that fit the estimate and were no plan all the same."""
        self.sets = self._next_sets()

    def _next_sets(self) -> Sets:
        in_flight, share = self._estimates.pop(0)
        return sets_of(self.problem, self.contracted, in_flight=in_flight, memory_share=share)

    def offer(self, where: Ints) -> float:
        """Have a placement judged; inf if it is no plan, and then the estimate of memory is stricter."""
        try:
            plan = plan_of(self.problem, self.contracted, where, self.micro_batches)
        except InvalidPlan:  # its stages would wait for each other
            self.refusals += 1
            return math.inf
        judged_s = self.monitor.offer(plan)
        if math.isinf(judged_s):
            self.refusals += 1
            if self._estimates:
                self.sets = self._next_sets()
        return judged_s

    def where_of(self, plan: Plan | None) -> Ints | None:
        """The placement of a plan, None if there is none to tell or it has other micro-batches."""
        if plan is None or plan.stages[0].micro_batch_size != self.contracted.samples:
            return None
        return where_of(self.contracted, plan)

    def linear_chain(self) -> Ints | None:
        """The best cut of a few topological orders, which is contiguous; None if nothing fits."""
        problem, condensed = self.problem, self.condensed
        if problem.pins:
            return None
        if self.sets.contiguity == ANY:  # then super-operators may lie on cycles; they must not here
            self.monitor.check()
            condensed = Condensed(acyclic(problem))
            self.monitor.check()
        search, samples = ChainSearch(condensed, self.monitor.check), self.contracted.samples
        contracted = condensed.at(samples, merge_trivial=self.sets.contiguity == ANY)
        variant = replace(search.variant, replicas=1)
        chain = search.linear(contracted, topological_orders(contracted.shape), self.micro_batches, variant)
        if not chain.parts:
            return None
        placement = placement_of(problem, contracted, chain)
        return np.array([placement[members[0]][0] for members in self.contracted.shape.members])

    def random_start(self, rng: random.Random) -> Ints | None:
        """Any device for each super-operator; if sets must be contiguous, consecutive parts of an order."""
        nodes, devices = self.sets.allowed.shape
        choices = [np.flatnonzero(row).tolist() for row in self.sets.allowed]
        if not all(choices):
            return None
        if self.sets.contiguity == ANY:
            return np.array([rng.choice(row) for row in choices])
        for _ in range(20):
            cuts = sorted(rng.randrange(nodes + 1) for _ in range(devices - 1))
            order = rng.sample(range(devices), devices)
            where = np.array([order[sum(cut <= v for cut in cuts)] for v in range(nodes)])
            if self.sets.allowed[np.arange(nodes), where].all():
                return where
        return None


def acyclic(problem: Problem) -> Problem:
    """The same problem for plans whose devices' sets are acyclic: they are plans of any contiguity."""
    return replace(problem, contiguity=Contiguity.ACYCLIC)


def grounds(problem: Problem, monitor: Monitor) -> list[Ground]:
    """One for every number of micro-batches, that of the best plan so far first, then fewer first."""
    condensed = Condensed(problem)
    by_count = []
    for count in micro_batch_choices(problem):
        monitor.check()
        by_count.append(Ground(problem, monitor, condensed, count))
    return sorted(by_count, key=lambda ground: ground.where_of(monitor.best) is None)
