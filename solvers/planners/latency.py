"""The default for single-sample latency: quick plans, a bound, annealing, constraint programming."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from solvers.latency_model import unsupported
from solvers.monitor import Monitor
from solvers.planners.latency_common import models, piece_limit, proved, raise_path_bounds
from solvers.planners.latency_cp import LatencyCP, PositionSearch
from solvers.planners.latency_search import Annealing, quick_starts
from solvers.problem import Problem

SIMPLE_RUNS = 4
"""Runs with one piece per accelerator, where more are allowed: they are quick and often as good."""

FIRST_RUNS = 4
"""Runs of the annealing before the constraint solver joins: it is better at proving than at finding."""


@dataclass(frozen=True)
class Latency:
    """Greedy and minimum-sum plans, bounds from paths, then annealing, first with one piece per accelerator
    and then with as many as allowed, until that brings nothing for long or the plan is proved optimal.

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
            limit = piece_limit(problem)
            simple = Annealing(model, 1, monitor)
            for _ in range(SIMPLE_RUNS if limit > 1 else 0):
                if not proved(monitor):
                    simple.run(math.inf)
            self._go_on(problem, monitor, Annealing(model, limit, monitor))
        return proved(monitor)

    def _go_on(self, problem: Problem, monitor: Monitor, annealing: Annealing) -> None:
        """Anneal until that is no use; meanwhile, and as long as it works, look at the constraint solver."""
        with ExitStack() as stack:
            solver = None
            while not proved(monitor):
                if annealing.runs == FIRST_RUNS and monitor.best is not None and _one_piece(problem):
                    solver = stack.enter_context(PositionSearch(problem, monitor, workers=1))
                if not annealing.tired:
                    annealing.run(math.inf, None if solver is None else solver.look)
                elif solver is not None and not solver.done:
                    solver.wait()
                else:
                    return


def _one_piece(problem: Problem) -> bool:
    """Whether the constraint program is about all plans allowed."""
    return problem.subgraphs_per_device == 1 and LatencyCP().unsupported(problem) is None
