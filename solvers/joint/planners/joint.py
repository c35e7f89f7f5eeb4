"""Joint placement and scheduling by multilevel annealing: the default for one pass of operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from solvers.bounds.combinatorial import improved_bound_s
from solvers.joint.annealing.anneal import Search, Solution, default_evaluations
from solvers.joint.lists.seeds import seeds
from solvers.joint.passes.model import pass_model
from solvers.joint.passes.plans import plan_of, taken_apart
from solvers.joint.planners.pass_common import no_pass
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor

BOUND_EFFORT, EFFORT_PER_EVALUATION = 2e8, 2e3
"""Arcs looked at, at most, to raise the bound after the search: about two seconds, and less after a short one."""


@dataclass(frozen=True)
class Joint:
    """Annealing on ever finer sets of operators, every placement timed in full, from the best of many seeds.

    Seeds: the start plan, single devices, splits of layers, m-TOPO, m-ETF and HEFT, on single operators and on
    grouped ones. Nothing is replicated or recomputed. evaluations: how many placements and priorities are timed
    after them at normal effort, at most; 0 chooses by the size of the graph. A seed and a number of evaluations give
    the same plan wherever time suffices.
    """

    name: ClassVar[str] = "joint"
    source: ClassVar[str] = "multilevel annealing, for the problem of Pesto (Middleware 2021, section 3)"
    guarantee: ClassVar[str] = "heuristic"

    evaluations: int = 0

    def unsupported(self, problem: Problem) -> str | None:
        return no_pass(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        monitor.check()
        model = pass_model(problem)
        monitor.check()
        search = Search(model, monitor.rng.getrandbits(63), monitor.check)
        if monitor.best is not None and (parts := taken_apart(model, monitor.best)) is not None:
            search.take_up(*parts)
        for _, seed in seeds(model, monitor.check):
            monitor.check()
            seeded = search.take_up(seed.place, seed.sequences, seed.rank)
            if seeded is not None:
                plan = _plan(search, seeded)
                monitor.check()
                monitor.offer(plan)
        if monitor.is_proved():
            return False
        evaluations = monitor.effort.of(self.evaluations or default_evaluations(model))
        monitor.begin(f"annealing placements, {evaluations:,} of them")
        for better in search.run(evaluations):
            plan = _plan(search, better)
            monitor.check()
            monitor.offer(plan)
            if monitor.is_proved():
                return False
            monitor.check()
        if monitor.best is not None:
            monitor.begin("ruling out shorter passes")
            effort = min(BOUND_EFFORT, EFFORT_PER_EVALUATION * evaluations)
            monitor.raise_bound(
                improved_bound_s(problem, monitor.objective_s, monitor.check, effort, monitor.raise_bound)
            )
        return False


def _plan(search: Search, solution: Solution) -> Plan:
    """What was found as a plan, which states in which order the simulation that timed it served every link."""
    plan = search.simulator.plan_in_order(solution.place, solution.sequences)
    return plan_of(search.model, solution.place, solution.sequences) if plan is None else plan
