"""The default for single-sample latency: quick plans, a bound, annealing, constraint programming."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from solvers.latency.model import unsupported
from solvers.latency.planners.latency_common import models, piece_limit, raise_path_bounds
from solvers.latency.planners.latency_cp import LatencyCP, PositionSearch
from solvers.latency.planners.latency_search import Annealing, quick_starts
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor

FIRST_RUNS = 4
"""Runs of the annealing before the constraint solver joins: it is better at proving than at finding."""


@dataclass(frozen=True)
class Latency:
    """Greedy and minimum-sum plans, bounds from paths, then annealing with one piece per accelerator (quick,
    and often as good) and with as many as allowed, in turn, until that brings nothing for long or the
    plan is proved optimal.

    Where one piece per accelerator is all that is allowed, CP-SAT searches beside it (on the other
    core) for better plans and bounds, as long as there is time.
    """

    name: ClassVar[str] = "latency"
    source: ClassVar[str] = "portfolio of the planners here for Tarnawski et al., NeurIPS 2020, section 6"
    guarantee: ClassVar[str] = "heuristic"

    paths: int = 12

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        quick_starts(problem, monitor)
        monitor.begin("bounding the latency by paths through the graph")
        raise_path_bounds(problem, monitor, self.paths)
        monitor.begin("annealing")
        for model in models(problem, monitor):
            limits = sorted({1, piece_limit(problem)})
            self._go_on(problem, monitor, [Annealing(model, pieces, monitor) for pieces in limits])
        return monitor.is_proved()

    def _go_on(self, problem: Problem, monitor: Monitor, searches: list[Annealing]) -> None:
        """Anneal in turn until that is no use; meanwhile, and as long as it works, look at the constraint
        solver."""
        with ExitStack() as stack:
            solver = None
            while not monitor.is_proved():
                if searches[0].runs >= FIRST_RUNS and solver is None and monitor.best and _one_piece(problem):
                    solver = stack.enter_context(PositionSearch(problem, monitor, workers=1))
                awake = [annealing for annealing in searches if not annealing.tired]
                for annealing in awake:
                    if not monitor.is_proved():
                        annealing.run(math.inf, None if solver is None else solver.look)
                if not awake:
                    if solver is None or solver.done:
                        return
                    solver.wait()


def _one_piece(problem: Problem) -> bool:
    """Whether the constraint program is about all plans allowed."""
    return problem.subgraphs_per_device == 1 and LatencyCP().unsupported(problem) is None
