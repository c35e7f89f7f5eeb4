"""The best sequential pipeline for the iteration itself: cuts of linear orders, with replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.chains import topological_orders
from solvers.contiguous.planners.chain_dp import micro_batch_choices
from solvers.pipelines.boundary_moves import improve
from solvers.pipelines.offers import unsupported
from solvers.pipelines.planners.draft_search import PATIENCE, DraftSearch
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor
from solvers.search.planner import at_least
from solvers.search.work import Work

MOST_ACTIONS = 10_000
"""Of a plan whose boundaries are moved under the full simulation, which takes a second for more."""


@dataclass(frozen=True)
class PipeDreamIteration:
    """A chain of stages with the least iteration time instead of the least bottleneck.

    PipeDream's setting (operators in a linear order, stages of consecutive ones, each on one device or
    data parallel on several) with the time of an iteration as the objective. The search of `GraphPipeline`, where the
    graph is one of several orders (branch after branch, branches in turn; more are mixed): for every number of
    micro-batches and a grid of bottlenecks the stages of least critical path, from the best of which a local search
    goes on that keeps to the order.

    orders: how many linear orders. starts: of local search, of each order. evaluations: estimates of each at normal
    effort, at most. moves: whether boundaries are then moved under the full simulation.
    """

    name: ClassVar[str] = "pipedream-iter"
    source: ClassVar[str] = "PipeDream's chain (Narayanan et al., SOSP 2019), for the time of an iteration"
    guarantee: ClassVar[str] = "heuristic"

    orders: int = 2
    starts: int = 2
    evaluations: int = 300
    moves: bool = True

    def __post_init__(self) -> None:
        at_least(self, {"orders": 1, "starts": 1, "evaluations": 0})

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        shape = Condensed(problem, ordered=True).at(1, merge_trivial=False).shape
        orders = dict.fromkeys(tuple(order[::-1].tolist()) for order in topological_orders(shape, self.orders))
        effort, estimates = Work(), 0
        for order in orders:
            search = DraftSearch(problem, monitor, order)
            search.start(micro_batch_choices(problem))
            search.refine(self.starts, monitor.effort.of(self.evaluations), monitor.effort.of(PATIENCE))
            search.remap()
            effort, estimates = effort + search.starts.effort, estimates + search.estimates
        monitor.note(f"{self.name}: {effort}, {estimates:,} estimates")
        if self.moves and monitor.best is not None and sum(map(len, monitor.best.order)) <= MOST_ACTIONS:
            monitor.begin("moving operators across stage boundaries")
            improve(problem, monitor)
        return False
