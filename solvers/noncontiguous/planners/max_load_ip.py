"""The max-load integer program: any contiguity, any transfer model, with proved bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.contiguous.planners.chain_dp import LinearDP, micro_batch_choices
from solvers.contiguous.variants import variant_of
from solvers.errors import InvalidPlan
from solvers.noncontiguous.covering import beside, covering
from solvers.noncontiguous.max_load_model import MaxLoadModel
from solvers.noncontiguous.planners.annealing import Annealing
from solvers.noncontiguous.planners.host_starts import START_ROUNDS, start_on_hosts
from solvers.noncontiguous.slots import Order, orders_of, slots_of, speeds
from solvers.plan.plan import Plan
from solvers.plan.segments import Place
from solvers.problem.problem import Contiguity, Objective, Problem
from solvers.programs.mip_search import Solver, no_solver, solve_model
from solvers.programs.scaled_model import TOLERANCE
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor
from solvers.search.planner import Planner

MOST_SLOTS = 100
"""Places that a super-operator may have, where there are more than devices: each takes rows for every message."""
MOST_ORDERS = 10
"""Orders of hosts in a chain that are searched one by one: a program that knows the order needs no choice of hosts,
and HiGHS proves it in seconds where the choice among three orders takes it minutes."""
COVER_AFTER_S = 1.0
"""Seconds of the program after which the covering bound joins it: many a program has ended by then."""
Case = tuple[int, Order | None]
"""A number of micro-batches, and the order in which chains go through hosts, or None for any."""


@dataclass(frozen=True)
class MaxLoadIP:
    """Optimal max-load given time, and a proved bound before: branch and bound by ``solver``.

    Tarnawski et al.'s program on co-location groups and merged messages, warm-started from the best
    plan known, or else (``start``) from a short annealing, for ACYCLIC from the linearised program; where links
    between hosts are slower, from what is best as if they were not (`start_on_hosts`), which also gives a bound, and
    from chains within each host; there every order in which a chain may go through the hosts, if they are few, has a
    program of its own. "Optimal" is up to 1e-6, what a solver's tolerances leave. Where memory is counted from the
    schedule, the program knows only the static bytes; its answer is optimal if it fits. Accelerators may be of
    several kinds, with memories of their own, and in hosts with slower links between them; a set of operators has
    one device or, in one host and with equal memories, up to ``max_replicas`` accelerators of one kind. Replicas of a
    set that runs in several pieces synchronise each of them, of which the program counts one: where links have a
    latency its bound may then be lower. Micro-batches are of one size, so no bound is stated where the problem allows
    others, nor where another objective is asked for. solver: "highs", or "cbc", which is slower and returns its plan
    only at the end.
    nodes: of HiGHS's tree for each number of micro-batches and order of hosts, after which the search ends, 0 for
    all: without a time limit the plan then hangs on the seed alone. cover: whether sets that need not be acyclic have
    the bound by covering proved in a process beside it too, unless nodes are counted; it holds for accelerators of one
    kind without replicas.
    """

    name: ClassVar[str] = "max-load-ip"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 5.2 and appendix"
    guarantee: ClassVar[str] = "exact"

    solver: Solver = "highs"
    start: bool = True
    nodes: int = 0
    cover: bool = True

    def unsupported(self, problem: Problem) -> str | None:
        if missing := no_solver(self.solver):
            return missing
        cluster = problem.cluster
        if not problem.transfers_alike and speeds(problem) is None:
            return (
                "links must be of one speed, or of one inside hosts and a slower one between them; use local-search"
                " or auto"
            )
        if problem.max_replicas > 1:
            if len({(link.latency_s, link.bandwidth_bytes_per_s) for link in cluster.speeds}) > 1:
                return "replicas on links of several speeds; use auto, or allow no replicas"
            if len({(d.kind, d.memory_bytes) for d in cluster.devices}) > len({d.kind for d in cluster.devices}):
                return "replicas on devices of unequal memory; use auto, or allow no replicas"
        slots, count = len(slots_of(problem, variant_of(problem).replicas)), len(cluster.accelerators)
        if slots > max(MOST_SLOTS, count + (count + 1) * len(cluster.cpus)):
            return (
                f"{slots} places for {len(cluster)} devices by kind, memory, host, pins and number of replicas, at most"
                f" {MOST_SLOTS}; use auto"
            )
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        if self.start and monitor.best is None:
            quick: Planner = LinearDP()
            if problem.contiguity is not Contiguity.ACYCLIC and problem.max_replicas == 1:
                quick = Annealing(patience=START_ROUNDS)
            if quick.unsupported(problem) is None:
                quick(problem, monitor)
            if not problem.transfers_alike and not problem.pins:
                start_on_hosts(problem, monitor)
        search = _Search(problem, monitor, self.solver, self.nodes or None)
        covers = self.cover and not self.nodes and search.own and problem.contiguity is not Contiguity.ACYCLIC
        bound = covering(problem, search.condensed, monitor, COVER_AFTER_S) if covers else None
        try:
            with beside(monitor, bound, near=3 * TOLERANCE if search.own else 0.0):
                self._run(search)
        finally:
            if bound is not None:
                bound.close()
        return search.concluded()

    def _run(self, search: _Search) -> None:
        for position, case in enumerate(search.cases):
            search.run(case, share=1 / (len(search.cases) - position))
        if search.monitor.best is None and search.problem.stated_bytes is None and search.plans_missing:
            for case in search.cases:
                search.run(case, share=0.5, careful=True)


class _Search:
    """One call of the planner: what is shared between numbers of micro-batches."""

    def __init__(self, problem: Problem, monitor: Monitor, solver: Solver, nodes: int | None) -> None:
        self.problem, self.monitor, self.solver, self.nodes = problem, monitor, solver, nodes
        self.condensed = Condensed(problem)
        # Whether the load searched for is the objective asked for, over the same set of plans.
        # Pipelines of several stages a device ask contiguity of stages, the program asks it of devices.
        narrower = problem.by_stage and problem.contiguity is not Contiguity.NONE
        narrower |= not problem.sizes_alike
        self.own = problem.objective is Objective.MAX_LOAD and not narrower
        hosts = problem.contiguity is Contiguity.ACYCLIC and not problem.transfers_alike
        orders: list[Order | None] = [*(orders_of(problem, MOST_ORDERS) if hosts else [])] or [None]
        self.cases: list[Case] = [(count, order) for count in micro_batch_choices(problem) for order in orders]
        self.bound_s = dict.fromkeys(self.cases, 0.0)
        """Objective that no plan of this case is below; inf if there is no plan."""

    @property
    def plans_missing(self) -> bool:
        """Whether some case is not proved to have no plan."""
        return math.isfinite(min(self.bound_s.values()))

    def run(self, case: Case, share: float, *, careful: bool = False) -> None:
        """Search one number of micro-batches and order of hosts, in this share of the time that is left.

        careful: count saved activations and workspace as if all micro-batches were in flight, which
        proves nothing, but finds plans that fit.
        """
        monitor, (count, order) = self.monitor, case
        monitor.check()
        if monitor.is_proved():
            return
        contracted = self._contracted(count)
        start = None if monitor.best is None else _places_of(self.problem, contracted, monitor.best)
        typical_s = monitor.objective_s if self.own and monitor.best is not None else _serial_s(contracted)
        flights = (count if self.problem.has_backward() else 1) if careful else 0
        built = MaxLoadModel(self.condensed, contracted, variant_of(self.problem), typical_s, flights, order)
        least_s = monitor.bound_s if self.own else 0.0
        most_s = monitor.objective_s if self.own else math.inf
        slots = None if start is None else built.slots_for(start)
        if slots is not None and built.start_from(slots):
            most_s = min(most_s, built.objective_s(built.model.start or []))
        built.limit(least_s * (1 - TOLERANCE), most_s * (1 + TOLERANCE))

        def on_incumbent(values: Sequence[float]) -> None:
            with suppress(InvalidPlan):  # backward tensors that mirror nothing may make its stages cyclic
                monitor.offer(assemble(self.problem, built.placement(built.slots_of(values)), count))

        def on_bound(bound: float) -> None:
            if not careful:
                self._raise(case, bound * built.unit_s)

        limit_s = monitor.remaining_s * share if share < 1 and self.nodes is None else math.inf
        outcome = solve_model(
            built.model, monitor, on_incumbent, on_bound, solver=self.solver, limit_s=limit_s, nodes=self.nodes
        )
        if outcome.infeasible and not careful:  # below most_s, that is
            self._raise(case, most_s)

    def concluded(self) -> bool:
        """Whether the best plan is proved best, or none exists."""
        least_s = max(min(self.bound_s.values()), self.monitor.bound_s)
        return self.own and self.monitor.objective_s <= least_s * (1 + 3 * TOLERANCE)

    def _raise(self, case: Case, bound_s: float) -> None:
        self.bound_s[case] = max(self.bound_s[case], bound_s)
        least_s = min(self.bound_s.values())
        if self.own and math.isfinite(least_s):
            self.monitor.raise_bound(least_s)

    def _contracted(self, count: int) -> Contracted:
        """Super-operators; merged ones only where memory, which merging could waste, cannot matter."""
        samples = self.problem.mini_batch // count
        roomy = min(d.memory_bytes for d in self.problem.cluster.devices) >= self.problem.static_bytes().sum()
        # Between hosts it matters from which a message comes, and so where an operator without work is.
        return self.condensed.at(samples, merge_trivial=roomy and self.problem.transfers_alike)


def _places_of(problem: Problem, contracted: Contracted, plan: Plan) -> list[Place]:
    """The devices of every super-operator, those of its longest operator."""
    placement = plan.placement()
    times = [problem.compute.at(kind, 1) for kind in problem.compute.seconds]
    longest = np.max([np.where(np.isfinite(each), each, 0.0) for each in times], axis=0).tolist()
    return [placement[max(members, key=longest.__getitem__)] for members in contracted.shape.members]


def _serial_s(contracted: Contracted) -> float:
    """Seconds if one device ran everything, each super-operator where it is fastest."""
    acc = np.where(contracted.supported, contracted.acc_s, math.inf)
    fastest = np.minimum(acc, contracted.cpu_s)
    return float(fastest[np.isfinite(fastest)].sum())
