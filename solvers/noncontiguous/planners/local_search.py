"""The published local search: move one co-location group at a time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solvers.kernels.arrays import Ints
from solvers.noncontiguous.planners.local_search_kernel import descend
from solvers.noncontiguous.planners.set_search import Ground, grounds, unsupported
from solvers.noncontiguous.set_moves_kernel import new_state, place
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor

TRIES_A_CALL = 100_000
"""Moves tried per kernel call: a few hundredths of a second."""


@dataclass(frozen=True)
class LocalSearch:
    """Moves of one super-operator to another device, until none lowers the max-load.

    From ``restarts`` random placements (consecutive parts of an order, where sets must be
    contiguous, the first of them the best linear cut), and from the start plan if there is one.
    steepest: the best move every time, otherwise the first that helps. Respects memory and
    contiguity and uses CPUs, all of which the published one leaves out. Its own objective is max-load.
    """

    name: ClassVar[str] = "local-search"
    source: ClassVar[str] = "Tarnawski et al., NeurIPS 2020, section 6 (local search baseline)"
    guarantee: ClassVar[str] = "heuristic"

    restarts: int = 10
    steepest: bool = True

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        rng = random.Random(monitor.seed)
        for ground in grounds(problem, monitor):
            given = ground.where_of(monitor.best)
            if given is not None:
                self._descend(ground, monitor, given)
            for restart in range(self.restarts):
                start = None
                if restart == 0 and ground.sets.contiguity:
                    start = ground.linear_chain()
                if start is None:
                    start = ground.random_start(rng)
                if start is not None:
                    self._descend(ground, monitor, start)
        return False

    def _descend(self, ground: Ground, monitor: Monitor, start: Ints) -> None:
        sets = ground.sets
        at, value = new_state(sets), np.zeros(2)
        marks = np.zeros(len(start), np.bool_)
        place(sets, at, start)
        try:
            monitor.check()
            while descend(sets, at, not self.steepest, marks, value, TRIES_A_CALL):
                monitor.check()
        finally:
            if value[0] == 0.0:
                ground.offer(at.where)
