"""A chain of devices that runs again no more than memory asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from solvers.errors import InvalidPlan
from solvers.pipelines.offers import likely_counts
from solvers.pipelines.selective.cuts import Filling, even_cuts_of
from solvers.pipelines.selective.line import line_of
from solvers.pipelines.selective.plans import fitted
from solvers.problem.problem import Objective, Problem
from solvers.search.monitor import Monitor
from solvers.search.planner import at_least

AHEAD = (1.0, 1.25, 1.5)
LEAN = (0.0, 0.25, 1.0)
"""Fillings that are tried."""
SHARES = (1.0, 0.9, 0.8)
"""Of the memory that cuts are made for, until a plan fits: buffers are not counted before."""
MOST_COUNTS = 2
"""Numbers of micro-batches that are tried."""


@dataclass(frozen=True)
class SelectiveRecompute:
    """Devices in a row, each of which runs again the cheapest of what does not fit.

    A device's operators are several stages. Of those that save much for little time (norms, activations) the forward
    runs again first, from what they read; beyond that the front of the device does, whose inputs were received and are
    there anyway. The operators in topological order are cut so that the busiest device does the least, what runs again
    counted; how much does is then fitted to the peaks of the simulation. Several numbers of micro-batches in flight,
    and loads that are even or less towards the end, are tried. Where no device has to run anything again this finds
    nothing that others do not.
    """

    name: ClassVar[str] = "selective-recompute"
    source: ClassVar[str] = "new here; selective recomputation: Korthikanti et al., MLSys 2023, section 5"
    guarantee: ClassVar[str] = "heuristic"

    tries: int = len(AHEAD) * len(LEAN)

    def __post_init__(self) -> None:
        at_least(self, {"tries": 1})

    def unsupported(self, problem: Problem) -> str | None:
        cluster = problem.cluster
        if problem.objective is not Objective.ITERATION:
            return "objectives other than iteration; use auto"
        if not problem.recompute or not problem.has_backward() or problem.stated_bytes is not None:
            return "problems in which no stage may run its forward again; use graph-pipeline"
        if not problem.alternates:
            return "pipelines other than 1f1b; use graph-pipeline"
        if len(cluster.accelerators) < 2 or len({cluster.devices[d].kind for d in cluster.accelerators}) > 1:
            return "clusters without several accelerators of one kind; use graph-pipeline"
        return "pinned operators; use graph-pipeline" if problem.pins else None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        for count in _counts(problem, monitor):
            monitor.begin(f"running again what memory asks for, {count} micro-batches")
            self._offer(problem, monitor, count)
        return False

    def _offer(self, problem: Problem, monitor: Monitor, count: int) -> None:
        line, devices = line_of(problem, count), problem.cluster.accelerators
        caps = [problem.cluster.devices[device].memory_bytes for device in devices]
        aheads = AHEAD if problem.may_run_ahead else AHEAD[:1]
        for ahead, lean in list(product(aheads, LEAN))[: self.tries]:
            for share in SHARES:
                monitor.check()
                cuts = even_cuts_of(line, Filling(ahead, lean), [share * cap for cap in caps])
                if cuts is None or not any(cut.cheaply for cut in cuts):
                    return
                try:
                    fit = fitted(line, cuts, devices[: len(cuts)])
                except InvalidPlan:  # some parts wait for each other
                    return
                if fit.plan is not None:
                    if fit.seconds < monitor.objective_s:
                        monitor.offer(fit.plan)
                    break


def _counts(problem: Problem, monitor: Monitor) -> Iterator[int]:
    """Numbers of micro-batches that, with the time to fill and drain, might give more than the best plan; the most
    promising first."""
    for one in likely_counts(problem, problem.micro_batch_choices())[:MOST_COUNTS]:
        if one.likely_s < monitor.objective_s:
            yield one.micro_batches
