"""Simulated annealing over sets of operators: the strongest of the quick planners without contiguity.

What it moves at once besides single super-operators are clusters of those that communicate much.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solvers.coarsening.traffic import Rows
from solvers.kernels.arrays import Ints
from solvers.noncontiguous.planners.annealing_kernel import anneal, new_walk
from solvers.noncontiguous.planners.set_search import Ground, grounds, unsupported
from solvers.noncontiguous.set_moves_kernel import Sets, max_load, new_state, place
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor, Stop

LEVELS = 8
"""Times clusters are joined in pairs."""
LARGEST = 0.7
"""Largest cluster, as a share of an equal part of all work."""
WIDE = 40
"""Ends beyond which a message says little about what belongs together."""


def clusters(sets: Sets, seed: int, tries: int = 3) -> Rows:
    """Clusters of two or more nodes at all levels of ``tries`` heavy-edge agglomerations, each once.

    Pairs with much communication for their work are joined first, with some chance.
    """
    rng = random.Random(seed)
    joined: dict[tuple[int, ...], None] = {}
    for _ in range(tries):
        _agglomerate(sets, rng, joined)
    return Rows.of(list(joined))


def _agglomerate(sets: Sets, rng: random.Random, clusters: dict[tuple[int, ...], None]) -> None:
    nodes = len(sets.held)
    work = sets.seconds.sum(axis=0)
    least = np.where(sets.allowed.T, work, np.inf).min(axis=0)
    least[np.isinf(least)] = 0.0
    share = float(least.sum()) / len(sets.cap)
    members = [[node] for node in range(nodes)]
    label = list(range(nodes))
    for _ in range(LEVELS):
        if len(members) <= max(4, 2 * len(sets.cap)):
            return
        weight = [float(least[group].sum()) for group in members]
        near: dict[tuple[int, int], float] = {}
        for m, cost in enumerate(sets.message_s.tolist()):
            on = sorted({label[node] for node in sets.on[sets.on_start[m] : sets.on_start[m + 1]].tolist()})
            if not 2 <= len(on) <= WIDE:
                continue
            for i, a in enumerate(on):
                for b in on[i + 1 :]:
                    near[a, b] = near.get((a, b), 0.0) + cost / (len(on) - 1)
        rank = {
            pair: cost * rng.uniform(0.7, 1.3) / (weight[pair[0]] + weight[pair[1]] + 0.05 * share + 1e-30)
            for pair, cost in near.items()
        }
        joined: list[list[int]] = []
        free = [True] * len(members)
        for a, b in sorted(rank, key=lambda pair: -rank[pair]):
            if free[a] and free[b] and weight[a] + weight[b] <= LARGEST * share:
                free[a] = free[b] = False
                joined.append(sorted(members[a] + members[b]))
                clusters[tuple(joined[-1])] = None
        if not joined:
            return
        members = joined + [group for group, alone in zip(members, free, strict=True) if alone]
        for number, group in enumerate(members):
            for node in group:
                label[node] = number


SCHEDULES = (
    (3e-2, 1e-4, 1.0),
    (1e-3, 1e-5, 0.1),
    (1e-4, 1e-5, 0.1),
    (3e-3, 1e-4, 1.0),
    (3e-4, 1e-5, 0.1),
    (1e-2, 1e-5, 0.1),
    (1e-4, 1e-6, 0.03),
    (1e-3, 1e-4, 5.0),
    (1e-4, 1e-5, 0.1),
    (1e-1, 1e-4, 0.3),
    (1e-4, 1e-5, 0.1),
)
"""First and last temperature as shares of the best max-load, and the weight of the 4-norm of the
loads; one a round. Hot ones find other shapes, cold ones with little weight settle the last per mille."""
LONGEST = 32
"""Most times a round's first length that a round becomes; rounds are doubled after every cycle."""
STARTS = (0.5, 0.3, 0.2)
"""Shares of rounds that begin from the best placement, from where the round before ended, which may be
worse but elsewhere, and from the first placement."""
TO_BEST = 0.75
"""Share of rounds for the number of micro-batches with the best placement, if there are several."""
SLICE_S = 0.03
"""Seconds a kernel call should take."""
OFFER_EVERY = 400_000
"""Judging a plan takes longer than finding a better one: within a round, steps between offers."""
EXCESS = 10.0
"""What a whole device of excess memory costs, in multiples of the max-load."""
MOST_REFUSALS = 20
"""Placements that turn out to be no plans, after which a number of micro-batches is given up."""


class Annealer:
    """Rounds of annealing on one number of micro-batches, each offering what it improved."""

    def __init__(self, ground: Ground, monitor: Monitor, start: Ints, steps: int, seed: int) -> None:
        self.ground, self.monitor, self.start, self.seed = ground, monitor, start, seed
        self.rng = random.Random(seed)
        self.steps = steps
        self.rounds = 0
        self._longest = steps * LONGEST
        self._slice = 4096
        self._begin_search()

    def _begin_search(self) -> None:
        self.sets = self.ground.sets
        groups = clusters(self.sets, self.seed)
        self.at = new_state(self.sets)
        self.walk = new_walk(self.sets, groups.start, groups.items, self.rng.randrange(2**62))
        self.walk.best_where[:] = self.start
        place(self.sets, self.at, self.start)
        self._offered_s = math.inf
        self._unoffered = 0

    @property
    def best_s(self) -> float:
        """The least max-load of a placement found, in seconds per sample."""
        return float(self.walk.best[0])

    @property
    def given_up(self) -> bool:
        """Whether placements too often turned out to be no plans."""
        return self.ground.refusals > MOST_REFUSALS

    def adopt(self, where: Ints) -> None:
        """Go on from a placement that others found, if it is better."""
        place(self.sets, self.at, where)
        if max_load(self.at) < self.best_s:
            self.walk.best[0] = max_load(self.at)
            self.walk.best_where[:] = where
            self._offered_s = self.best_s

    def round(self) -> bool:
        """One schedule from the best or the first placement; whether a better one was found. Raises Stop."""
        before_s = self.best_s
        first, last, weight = SCHEDULES[self.rounds % len(SCHEDULES)]
        begin = self.rng.choices((self.walk.best_where.copy(), self.at.where.copy(), self.start), STARTS)[0]
        place(self.sets, self.at, begin)
        scale_s = before_s if math.isfinite(before_s) else max_load(self.at)
        walk = self.walk
        walk.temperature[:] = scale_s * first, (last / first) ** (1 / self.steps)
        walk.smooth[:] = weight, EXCESS * scale_s
        left = self.steps
        try:
            while left > 0:
                self.monitor.check()
                left -= self._run(left)
        except Stop:
            self._offer()
            raise
        self._offer()
        self.rounds += 1
        if self.rounds % len(SCHEDULES) == 0:
            self.steps = min(2 * self.steps, self._longest)
        return self.best_s < before_s

    def _run(self, most: int) -> int:
        """Anneal for a moment; how many steps that were."""
        steps = min(self._slice, most, OFFER_EVERY - self._unoffered)
        started_s = self.monitor.elapsed_s
        anneal(self.sets, self.at, self.walk, steps)
        now_s = self.monitor.elapsed_s
        if now_s - started_s > 2 * SLICE_S:
            self._slice = max(self._slice // 4, 64)
        elif now_s - started_s < SLICE_S and self._slice < 200_000:
            self._slice *= 2
        self._unoffered += steps
        if self._unoffered >= OFFER_EVERY:
            self._offer()
        return steps

    def _offer(self) -> None:
        """Have the best placement judged if that was not done yet; begin again if it is no plan."""
        self._unoffered = 0
        if self.best_s >= self._offered_s:
            return
        judged_s = self.ground.offer(self.walk.best_where)
        self._offered_s = self.best_s
        if math.isinf(judged_s):
            known = self.ground.where_of(self.monitor.best)
            self._begin_search()
            if known is not None:
                self.start = known
                self.adopt(known)


@dataclass(frozen=True)
class Annealing:
    """Annealing with single moves, swaps and moves of whole clusters; its own objective is max-load.

    Rounds of rising length follow a cycle of temperatures, most from the best placement so far, the
    others from the start: the plan given, else the best linear cut. Ends after ``patience`` rounds
    without a better placement. Where sets must be contiguous, only moves that keep them so are made.
    """

    name: ClassVar[str] = "annealing"
    source: ClassVar[str] = "Kirkpatrick et al., Science 1983; moves and costs as for local-search"
    guarantee: ClassVar[str] = "heuristic"

    steps: int = 100_000
    patience: int = 30

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        annealers = start_all(problem, monitor, self.steps)
        idle = 0
        patience = monitor.effort.of(self.patience)
        while idle < patience and (able := [a for a in annealers if not a.given_up]):
            idle = 0 if next_of(able, monitor).round() else idle + 1
        return False


def start_all(problem: Problem, monitor: Monitor, steps: int) -> list[Annealer]:
    """An annealer for every number of micro-batches, starting from the best plan, a chain or anywhere."""
    annealers = []
    for ground in grounds(problem, monitor):
        start = ground.where_of(monitor.best)
        if start is None:
            start = ground.linear_chain()
            if start is not None:
                ground.offer(start)
        if start is None:
            start = ground.random_start(monitor.rng)
        monitor.check()
        if start is not None:
            annealers.append(Annealer(ground, monitor, start, steps, monitor.rng.randrange(2**31)))
    return annealers


def next_of(annealers: list[Annealer], monitor: Monitor) -> Annealer:
    """Whose turn it is: every annealer once, then mostly the one with the best placement."""
    for annealer in annealers:
        if annealer.rounds == 0:
            return annealer
    if monitor.rng.random() < TO_BEST:
        return min(annealers, key=lambda annealer: annealer.best_s)
    return monitor.rng.choice(annealers)
