"""The default for single-sample latency: quick plans, a bound, annealing, constraint programming."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from solvers.latency.model import unsupported
from solvers.latency.planners.latency_common import models, piece_limit, raise_path_bounds, raise_series_bound
from solvers.latency.planners.latency_search import Annealing, quick_starts
from solvers.latency.planners.programs import LatencyCP
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor


@dataclass(frozen=True)
class Latency:
    """Greedy and minimum-sum plans, bounds from a series of operators and from paths, then annealing with one piece
    per accelerator (quick, and often as good) and with as many as allowed, in turn, until that brings nothing for
    long or the plan is proved optimal.

    Where one piece per accelerator is all that is allowed, CP-SAT goes on from there, for better plans and bounds, for
    ``work`` of its deterministic time (about seconds) at normal effort.
    """

    name: ClassVar[str] = "latency"
    source: ClassVar[str] = "portfolio of the planners here for Tarnawski et al., NeurIPS 2020, section 6"
    guarantee: ClassVar[str] = "heuristic"

    paths: int = 12
    work: int = 20

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        quick_starts(problem, monitor)
        monitor.begin("bounding the latency between operators that all others come before or after")
        raise_series_bound(problem, monitor)
        monitor.begin("bounding the latency by paths through the graph")
        raise_path_bounds(problem, monitor, self.paths)
        monitor.begin("annealing")
        for model in models(problem, monitor):
            searches = [Annealing(model, pieces, monitor) for pieces in sorted({1, piece_limit(problem)})]
            while not monitor.is_proved() and (awake := [search for search in searches if not search.tired]):
                for annealing in awake:  # run after run in turn, until each has gained nothing for long
                    if not monitor.is_proved():
                        annealing.run(math.inf)
        if problem.subgraphs_per_device == 1 and not monitor.is_proved() and monitor.best is not None:
            exact = LatencyCP(workers=1, work=monitor.effort.of(self.work))
            if exact.unsupported(problem) is None:
                monitor.begin("constraint program")
                exact(problem, monitor)
        return monitor.is_proved()
