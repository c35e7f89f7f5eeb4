"""The latency integer program: one sample, q subgraphs per accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from solvers.errors import InvalidPlan
from solvers.kernels.arrays import Ints
from solvers.latency.model import LatencyModel
from solvers.latency.model import unsupported as not_latency
from solvers.latency.planners.latency_search import LatencySearch
from solvers.latency.plans import plan_of_calls
from solvers.latency.program import LatencyProgram
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem
from solvers.programs.mip_search import Solver, no_solver, solve_model
from solvers.programs.scaled_model import TOLERANCE
from solvers.search.monitor import Monitor

START_MOVES = 100_000
"""Moves of the search for a start: about half a second on graphs of hundreds of operators."""


@dataclass(frozen=True)
class LatencyIP:
    """Least latency of one sample, and a proved bound: branch and bound by ``solver``.

    At most ``subgraphs_per_device`` pieces per accelerator; where the problem leaves that open, one
    and then two are tried and nothing is claimed. Starts from the best plan known, or else from
    short searches by `LatencySearch`. "Optimal" is up to 1e-6, what a solver's tolerances leave. Memory
    that is counted from the schedule is known to the program as static bytes only.
    """

    name: ClassVar[str] = "latency-ip"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 6"
    guarantee: ClassVar[str] = "exact"

    solver: Solver = "highs"
    start: bool = True

    def unsupported(self, problem: Problem) -> str | None:
        return no_solver(self.solver) or not_latency(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        if self.start and monitor.best is None:
            _offer_starts(problem, monitor)
        asked = problem.subgraphs_per_device
        if asked is None:
            for pieces in (1, 2):
                self._search(problem, monitor, pieces, claim=False)
            return False
        pieces = min(asked, len(problem.graph))
        return self._search(problem, monitor, pieces, claim=problem.max_replicas == 1)

    def _search(self, problem: Problem, monitor: Monitor, pieces: int, *, claim: bool) -> bool:
        """Search plans of at most so many pieces; whether the best plan is proved best. claim: bounds are
        for the problem asked."""
        monitor.check()
        if monitor.is_proved():
            return False
        latency = LatencyModel.of(problem)
        call = None if monitor.best is None else calls_of_plan(latency, monitor.best, pieces)
        most_s = monitor.objective_s if monitor.best is not None else latency.serial_s
        program = LatencyProgram(latency, pieces, most_s * (1 + TOLERANCE), monitor.check)
        times = None if call is None else program.times_of(program.renamed(call))
        if times is not None:
            program.start_from(times)
        program.at_least(monitor.bound_s * (1 - TOLERANCE))

        def on_incumbent(found: Sequence[float]) -> None:
            calls = program.calls_of(found)
            times = program.times_of(calls)
            turns = None if times is None else np.array(times.turn, np.int64)
            with suppress(InvalidPlan):  # calls without any duration may wait for each other
                monitor.offer(plan_of_calls(latency, calls, pieces, turns))

        def on_bound(bound: float) -> None:
            if claim:
                monitor.raise_bound(bound * program.unit_s)

        outcome = solve_model(program.model, monitor, on_incumbent, on_bound, solver=self.solver)
        bound_s = most_s if outcome.infeasible else outcome.bound * program.unit_s
        if claim and outcome.infeasible and monitor.best is not None:
            monitor.raise_bound(bound_s)
        return claim and (monitor.objective_s <= bound_s * (1 + 3 * TOLERANCE) or outcome.infeasible)


def _offer_starts(problem: Problem, monitor: Monitor) -> None:
    """Short searches, first with one piece per accelerator, which is soon found and hard to beat."""
    search = LatencySearch(moves=START_MOVES)
    if problem.subgraphs_per_device != 1:
        single = replace(problem, subgraphs_per_device=1)
        search(single, monitor.asking(single, lambda plan: plan))
    search(problem, monitor)


def calls_of_plan(latency: LatencyModel, plan: Plan, pieces: int) -> Ints | None:
    """The calls of a plan, its accelerators' stages in the plan's order; None if there are too many."""
    call = np.full(len(latency.group_of), -1, np.int64)
    for place, device in enumerate(latency.problem.cluster.accelerators):
        stages = list(dict.fromkeys(action.stage for action in plan.order[device]))
        if len(stages) > pieces:
            return None
        for piece, stage in enumerate(stages):
            call[list(plan.stages[stage].operators)] = place * pieces + piece
    return call
