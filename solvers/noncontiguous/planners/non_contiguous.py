"""Max-load without contiguity: chains for a start, annealing, and bounds proved beside it."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.planners.downset_dp import DownsetDP
from solvers.kernels.arrays import Ints
from solvers.noncontiguous.covering import Covering, beside, covering
from solvers.noncontiguous.planners.annealing import Annealer, next_of, start_all
from solvers.noncontiguous.planners.max_load_cp import MaxLoadCP
from solvers.noncontiguous.planners.max_load_ip import MaxLoadIP
from solvers.noncontiguous.planners.non_contiguous_kernel import new_tour, tour
from solvers.noncontiguous.planners.set_search import acyclic, unsupported
from solvers.noncontiguous.set_moves_kernel import Sets, new_state, place
from solvers.problem.problem import Contiguity, Objective, Problem
from solvers.programs.mip_search import LOOK_EVERY_S
from solvers.search.effort import Effort
from solvers.search.monitor import Monitor, Stop
from solvers.search.planner import Planner

WORTH = 1e-4
"""Relative gap that is not worth annealing for."""
ROUNDING = 1e-10
"""Relative error of loads that were changed a million times."""
PLACEMENTS_A_CALL = 100_000
"""A few hundredths of a second."""
FIRST_ROUNDS = 10
"""Rounds before a child process is started: many a gap is closed by then."""
START_WORK = 300
"""Pieces of work, of a few hundredths of a second, that the search for a contiguous start may take."""
PROGRAM_SHARE, PACKING_SHARE = 0.5, 0.6
"""Shares of the time then left that the integer program and the constraint program may take."""
SMALL, NODES = 60, 1000
"""Super-operators up to which the integer program is asked, and nodes of its tree at normal effort."""
PACKING_WORK = 3
"""Deterministic time of the constraint program at normal effort."""
PROOF_S = 10
"""Seconds for a bound at normal effort, after the plan is found, however soon it was."""
FAR, FAR_PROOF_S = 0.01, 30
"""Relative gap from which on that bound is given more seconds, at normal effort."""
LIGHT = 0.2
"""Seconds of all messages, as a share of all work, up to which placing is nearly bin packing."""


@dataclass(frozen=True)
class NonContiguous:
    """The best known way to non-contiguous placements, up to a fifth better than contiguous ones.

    1. The exact contiguous optimum, if its downsets are at most ``downset_budget``, or a linear cut;
    then all placements one by one, if they are at most ``enumerated``. 2. Annealing. 3. Once ``patience`` rounds
    found nothing better, or before where messages are so cheap that placing is nearly bin packing, the constraint
    program for a count of its work, and a bound by covering the graph with sets of bounded load. Thorough effort has
    that proved meanwhile, runs the constraint and the integer program for shares of the time and goes on until the gap
    is closed, or until the children have ended and annealing stalls. ``prove``: whether to use children.
    """

    name: ClassVar[str] = "non-contiguous"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 5.2; annealing and covering bound"
    guarantee: ClassVar[str] = "heuristic"

    downset_budget: int = 200_000
    enumerated: int = 1_000_000
    patience: int = 12
    prove: bool = True

    def unsupported(self, problem: Problem) -> str | None:
        if problem.objective is not Objective.MAX_LOAD:
            return f"it minimises max-load, and the objective is {problem.objective}; use auto"
        if problem.contiguity is not Contiguity.NONE:
            return f"its placements are not contiguous, and {problem.contiguity} is asked for; use auto"
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        offer_contiguous(problem, monitor, self.downset_budget)
        search = _Search(problem, monitor)
        if search.enumerate(self.enumerated):
            return monitor.is_proved() or monitor.infeasible is not None
        if search.anneal(FIRST_ROUNDS):
            return True
        if not self.prove:
            return search.anneal(monitor.effort.of(self.patience))
        if monitor.effort is Effort.THOROUGH:
            return self._side_by_side(search, problem, monitor)
        return self._in_turn(search, problem, monitor)

    def _in_turn(self, search: _Search, problem: Problem, monitor: Monitor) -> bool:
        """One after the other, each with its own count of work: the plan hangs on the seed alone. What is proved in the
        end, with the plan as it then is, takes at most as long as the search."""
        effort = monitor.effort
        patience = effort.of(self.patience)
        if search.packs():
            monitor.begin("constraint program")
            if MaxLoadCP(workers=1, work=effort.of(PACKING_WORK))(problem, monitor):
                return True
            # Each on its own first: from what the program found, rounds that are still short find nothing better.
            if search.anneal(patience):
                return True
            search.adopt()
        if search.anneal(patience):
            return True
        program = MaxLoadIP(nodes=effort.of(NODES))
        if search.is_small() and program.unsupported(problem) is None:
            monitor.begin("integer program")
            if program(problem, monitor):
                return True
            search.adopt()
        search.prove(max(effort.of(PROOF_S), monitor.elapsed_s), effort.of(FAR_PROOF_S))
        return monitor.is_proved()

    def _side_by_side(self, search: _Search, problem: Problem, monitor: Monitor) -> bool:
        """The covering bound beside all others, and programs for shares of the time: what ends first hangs on the
        machine."""
        monitor.note("non-contiguous: programs took shares of the time limit, so that another run may end otherwise")
        prover = search.prover()
        try:
            if search.packs():
                if search.runs(MaxLoadCP(), "constraint program", PACKING_SHARE, prover):
                    return True
            elif search.anneal(monitor.effort.of(self.patience), prover):
                return True
            program = MaxLoadIP(cover=False)
            able = program.unsupported(problem) is None
            if able and search.runs(program, "integer program", PROGRAM_SHARE, prover):
                return True
            while not search.anneal(monitor.effort.of(self.patience), prover):
                if prover is None or prover.done or not search.able or search.settled():
                    break
            return monitor.is_proved()
        finally:
            if prover is not None:
                prover.close()


def offer_contiguous(problem: Problem, monitor: Monitor, downset_budget: int) -> None:
    """Offer the best contiguous plan, which is a plan of any contiguity, if it can be found fast."""
    planner = DownsetDP(downset_budget=downset_budget, work=monitor.effort.of(START_WORK))
    narrower = acyclic(problem)
    if planner.unsupported(narrower):
        return
    monitor.begin("contiguous start")
    inner = monitor.for_question(narrower)
    with suppress(Stop):
        planner(narrower, inner)
    if inner.best is not None:
        monitor.offer(inner.best)
    monitor.check()


class _Search:
    """Annealing with a prover that watches."""

    def __init__(self, problem: Problem, monitor: Monitor) -> None:
        self.problem, self.monitor = problem, monitor
        self.annealers = start_all(problem, monitor, steps=100_000)

    @property
    def able(self) -> list[Annealer]:
        return [annealer for annealer in self.annealers if not annealer.given_up]

    def settled(self) -> bool:
        """Whether the gap is too small for annealing."""
        return self.monitor.bound_s >= self.monitor.objective_s * (1 - WORTH)

    def anneal(self, patience: int, prover: Covering | None = None) -> bool:
        """Rounds until ``patience`` of them found nothing better, or nothing much better can be; whether
        the gap is closed."""
        self.monitor.begin("annealing")
        idle = 0
        with beside(self.monitor, prover):
            while idle < patience and self.able and not self.settled():
                idle = 0 if next_of(self.able, self.monitor).round() else idle + 1
        return self.monitor.is_proved()

    def enumerate(self, most: int) -> bool:
        """Look at every placement, and prove the bound that gives, if they are at most ``most``."""
        if not self.annealers or sum(len(a.sets.cap) ** len(a.sets.held) for a in self.annealers) > most:
            return False
        least_s = math.inf
        for annealer in self.annealers:
            ground = annealer.ground
            # What every device holds at least: without activations.
            least_s = min(least_s, self._least(ground.sets._replace(held=ground.contracted.static_bytes))[0])
            while True:
                sets = ground.sets
                placement_s, where = self._least(sets)
                if math.isinf(placement_s) or math.isfinite(ground.offer(where)) or ground.sets is sets:
                    break  # a plan, or no other estimate of memory left to try
        if self.exact and self.problem.max_replicas == 1 and self.problem.sizes_alike:
            if math.isfinite(least_s):
                self.monitor.raise_bound(least_s * (1 - ROUNDING))
            else:
                self.monitor.prove_infeasible("no placement of the operators fits the devices' memory")
        return True

    def _least(self, sets: Sets) -> tuple[float, Ints]:
        """The least max-load of all placements that fit, and the placement; inf if none fits."""
        at, seen = new_state(sets), new_tour(sets)
        place(sets, at, np.zeros(len(sets.held), np.int64))
        while tour(sets, at, seen, PLACEMENTS_A_CALL):
            self.monitor.check()
        return float(seen.best[0]), seen.best_where

    @property
    def exact(self) -> bool:
        """Whether the loads searched with are those of `loads`: where links are equally fast."""
        return self.problem.transfers_alike

    def is_small(self) -> bool:
        """Whether the integer program may settle the question by a count of its nodes."""
        return all(len(annealer.ground.contracted.shape) <= SMALL for annealer in self.annealers)

    def packs(self) -> bool:
        """Whether messages are so cheap that the constraint program finds more than annealing."""
        grounds = [annealer.ground for annealer in self.annealers]
        light = all(g.sets.message_s.sum() <= LIGHT * g.contracted.acc_s.sum() for g in grounds)
        return light and all(g.sets.split for g in grounds) and MaxLoadCP().unsupported(self.problem) is None

    def runs(self, program: Planner, name: str, share: float, prover: Covering | None) -> bool:
        """Search with another planner for a share of the time left, and go on from what it finds; whether
        it covered everything."""
        covered = False
        with beside(self.monitor, prover, share * self.monitor.remaining_s):
            self.monitor.begin(name)
            covered = program(self.problem, self.monitor)
        self.adopt()
        return covered

    def prove(self, limit_s: float, far_s: float) -> None:
        """Raise the bound for ``limit_s`` seconds, and while the gap is more than FAR for ``far_s``."""
        prover = self.prover()
        if prover is None:
            return
        self.monitor.begin("bounding the load by covering the graph")
        try:
            until_s = self.monitor.elapsed_s + limit_s
            with beside(self.monitor, prover, max(limit_s, far_s)):
                while not prover.done and not self.monitor.is_proved():
                    is_far = self.monitor.bound_s < self.monitor.objective_s * (1 - FAR)
                    if self.monitor.elapsed_s > until_s and not is_far:
                        break
                    self.monitor.check()
                    time.sleep(LOOK_EVERY_S)
        finally:
            prover.close()

    def adopt(self) -> None:
        """Go on from the best plan, whoever found it."""
        for annealer in self.annealers:
            where = annealer.ground.where_of(self.monitor.best)
            if where is not None:
                annealer.adopt(where)

    def prover(self) -> Covering | None:
        """A covering bound in a child process, where such a bound holds for the problem asked."""
        bound = covering(self.problem, Condensed(self.problem), self.monitor) if self.annealers else None
        return bound if bound is not None and bound.start() else None
