"""Multilevel annealing of placement and order, driven in short slices of kernel time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from solvers.joint.annealing.anneal_kernel import (
    BEST,
    BEST_EXCESS,
    COOLING,
    COST,
    ORDER,
    PATHS,
    RANKS,
    TEMPERATURE,
    Level,
    Walker,
    anneal,
    begin,
)
from solvers.joint.annealing.placement_coarsening import GroupEdges, coarsenings, group_edges
from solvers.joint.passes.model import PassModel
from solvers.joint.passes.simulator import Sequences, Simulator
from solvers.kernels.arrays import Floats, Ints, starts

SLICE_S = 0.05
"""Seconds of kernel time between two looks at the clock."""

FIRST_ROUND = 1_000
"""Evaluations of the first rounds."""

LANES = 8
"""Most placements that the first rounds start from."""

MOST_WORK, OVERHEAD = 120_000_000, 1000
"""Operators timed in a whole search, and how many of them an evaluation costs besides its own."""

HEAT = 0.015
"""First temperature of a level, as a share of the makespan."""

COLD = 0.01
"""Last temperature as a share of the first."""

RANK_HEAT = 0.001
"""First temperature while priorities change, as a share of the makespan."""


ORDER_HEAT = 0.01
"""First temperature while orders change, as a share of the makespan."""

VAIN_ROUNDS = 2
"""Rounds of the last placement, each as long as all before, that may find nothing before the search ends."""

FEW_GROUPS = 60
"""With at most so many groups most of the effort goes into orders."""


@dataclass(frozen=True)
class Solution:
    """A placement with sequences: seconds in exactly that order, and the memory beyond all caps as a share."""

    seconds: float
    excess: float
    place: Ints
    sequences: Sequences

    def beats(self, other: Solution | None) -> bool:
        return other is None or (self.excess, self.seconds) < (other.excess, other.seconds)


def default_evaluations(model: PassModel) -> int:
    """So many that a few seconds suffice for a thousand operators, and a second for a few."""
    return MOST_WORK // (OVERHEAD + model.operators)


@dataclass
class Lane:
    """A placement with priorities that the search improves: cost in seconds, with what its excess adds.

    ordered: the best known with a fixed order instead, which the annealing of orders goes on from.
    """

    place: Ints
    rank: Floats
    line: Ints
    cost: float = math.inf
    excess: float = math.inf
    ordered: Lane | None = None

    @property
    def worth(self) -> tuple[float, float]:
        own = self.excess, self.cost
        return own if self.ordered is None else min(own, self.ordered.worth)


class Search:
    """Annealing on one model; all that chance decides follows from ``seed`` and the number of evaluations.

    between: called every `SLICE_S` or so.
    """

    def __init__(self, model: PassModel, seed: int, between: Callable[[], None]) -> None:
        self.model, self.between = model, between
        self.simulator = Simulator(model)
        edges = group_edges(model)
        held = model.held_bytes
        self.levels = [level_of(model, of, edges, held) for of in coarsenings(model, edges)]
        self.random = np.array([seed], np.uint64)
        self.best: Solution | None = None
        self.lanes: list[Lane] = []
        self._slice = 50

    def start(self, place: Ints, rank: Floats | None = None) -> Solution | None:
        """Add a placement, with its priorities or by its paths, to those to improve; returns it if it is the best."""
        level = self.levels[-1]
        lane = Lane(place, np.zeros(self.model.operators) if rank is None else rank, self.simulator.order.copy())
        self._run(lane, level, 0, PATHS if rank is None else RANKS)
        if math.isinf(lane.cost) or any(np.array_equal(lane.place, other.place) for other in self.lanes):
            return None
        self.lanes.append(lane)
        return self._improved(lane)

    def take_up(self, place: Ints, sequences: Sequences, rank: Floats | None = None) -> Solution | None:
        """Add a plan, with its own order and as a placement to improve by this rank (by its starts, without one);
        returns what is better than all before."""
        own = self._timed(place, sequences)
        if own is None:
            return None
        state = self.simulator.state
        rank = state.start_s[: self.model.operators].copy() if rank is None else rank
        line = np.argsort(state.sequence, kind="stable")
        better = self._better(own)
        known = len(self.lanes)
        listed = self.start(place, rank)
        if len(self.lanes) > known and own.excess == 0:
            lane = self.lanes[-1]
            if (own.excess, own.seconds) < (lane.excess, lane.cost):
                lane.ordered = Lane(place.copy(), rank.copy(), line, own.seconds, 0.0)
        return listed or better

    def run(self, evaluations: int) -> Iterator[Solution]:
        """Anneal the best lanes, then the better half of them for twice as long, and so on; the last one, in ever
        longer rounds, until so many placements are timed or VAIN_ROUNDS of it in a row have found nothing. Yields what
        is better than all before."""
        lanes = sorted(self.lanes, key=lambda lane: lane.worth)[:LANES]
        size, vain = FIRST_ROUND, 0
        while evaluations > 0 and lanes and vain < VAIN_ROUNDS:
            best = self.best
            for lane in lanes:
                now = min(size, evaluations)
                if len(lanes) == 1 and evaluations < 3 * size:
                    now = evaluations
                yield from self._round(lane, now)
                evaluations -= now
            if len(lanes) == 1:
                vain = vain + 1 if self.best is best else 0
            lanes = sorted(lanes, key=lambda lane: lane.worth)[: max(1, len(lanes) // 2)]
            size *= 2

    def _round(self, lane: Lane, evaluations: int) -> Iterator[Solution]:
        """Anneal all levels from the coarsest to single groups, then priorities, then orders, each from the lane's
        best."""
        few = len(self.model.groups) <= FEW_GROUPS
        count = len(self.levels)
        shares = [1.0] * count + [count / 6, 2.0 * count if few else count / 6]
        for number, share in enumerate(shares):
            level = self.levels[min(number, count - 1)]
            tries = round(evaluations * share / sum(shares))
            if tries == 0:
                continue
            if number <= count:
                self._run(lane, level, tries, PATHS if number < count else RANKS)
                better = self._improved(lane)
            else:
                better = self._in_order(lane, level, tries)
            if better is not None:
                yield better

    def _in_order(self, lane: Lane, level: Level, tries: int) -> Solution | None:
        """Anneal orders, from the lane's best order or its best list schedule."""
        simulator = self.simulator
        own = self.exact(lane.place, lane.rank)
        simulator.by_rank_s(lane.place, lane.rank)
        line = np.argsort(simulator.state.sequence, kind="stable")
        ordered = lane.ordered
        if ordered is None or (own is not None and (own.excess, own.seconds) < (ordered.excess, ordered.cost)):
            ordered = Lane(lane.place.copy(), lane.rank.copy(), line)
        self._run(ordered, level, tries, ORDER)
        if math.isinf(ordered.cost):
            return None
        lane.ordered = ordered
        place = ordered.place[self.model.group_of]
        sequences = [[o for o in ordered.line.tolist() if place[o] == d] for d in range(self.model.devices)]
        return self._better(self._timed(ordered.place, sequences))

    def _improved(self, lane: Lane) -> Solution | None:
        solution = self.exact(lane.place, lane.rank)
        self.between()
        return self._better(solution)

    def _better(self, solution: Solution | None) -> Solution | None:
        """What was found if it is the best so far."""
        if solution is None or not solution.beats(self.best):
            return None
        self.best = solution
        return solution

    def _timed(self, place: Ints, sequences: Sequences) -> Solution | None:
        """A placement with these sequences as a plan is timed; None if it cannot run."""
        seconds = self.simulator.in_order_s(place, sequences)
        if math.isinf(seconds):
            return None
        return Solution(seconds, 0.0 if self.simulator.fits() else 1.0, place.copy(), sequences)

    def exact(self, place: Ints, rank: Floats) -> Solution | None:
        """The sequences that a list schedule gives, timed as a plan would be."""
        if math.isinf(self.simulator.by_rank_s(place, rank)):
            return None
        return self._timed(place, self.simulator.sequences())

    def _run(self, lane: Lane, level: Level, count: int, mode: int) -> None:
        arrays, state, order = self.model.arrays, self.simulator.state, self.simulator.order
        walker = self._walker(level, lane)
        begin(arrays, state, order, level, walker, mode)
        figures = walker.figures
        scale = min(figures[BEST], figures[COST])
        figures[TEMPERATURE] = (RANK_HEAT if mode == RANKS else ORDER_HEAT if mode == ORDER else HEAT) * (
            scale if math.isfinite(scale) else 0.0
        )
        figures[COOLING] = COLD ** (1 / max(1, count))
        while count > 0:
            now = min(count, self._slice)
            before = time.perf_counter()
            anneal(arrays, state, order, level, walker, mode, now)
            took = time.perf_counter() - before
            count -= now
            # How long a slice is decides nothing: the next goes on where this one ends.
            self._slice = max(1, min(4 * self._slice, int(self._slice * SLICE_S / max(took, 1e-6))))
            self.between()
        lane.place, lane.rank, lane.line = walker.best_place, walker.best_rank, walker.best_line
        lane.cost, lane.excess = float(figures[BEST]), float(figures[BEST_EXCESS])

    def _walker(self, level: Level, lane: Lane) -> Walker:
        """At a lane's placement, in which each unit goes where most of it is."""
        model = self.model
        figures = np.full(6, math.inf)
        figures[BEST], figures[BEST_EXCESS] = lane.cost, lane.excess
        unit_place = model.gathered(level.unit_of, lane.place)
        return Walker(
            place=unit_place[level.unit_of], unit_place=unit_place,
            rank=lane.rank.copy(), held=np.zeros(model.devices), best_place=lane.place.copy(),
            best_rank=lane.rank.copy(), figures=figures, random=self.random, tail=np.zeros(model.operators),
            follow=np.full(model.operators, -1, np.int64), nothing=np.zeros(0),
            line=lane.line.copy(), best_line=lane.line.copy(),
        )  # fmt: skip


def level_of(model: PassModel, of: Ints, edges: GroupEdges, held: Floats) -> Level:
    units = int(of.max()) + 1
    low, high = of[edges.ends[:, 0]], of[edges.ends[:, 1]]
    across = low != high
    return Level(
        unit_of=of, member_start=starts(np.bincount(of, minlength=units)), member=np.argsort(of, kind="stable"),
        allowed=model.allowed_to(of), held=np.bincount(of, held, units).astype(np.float64),
        room=model.memory_bytes.copy(), edge_low=low[across], edge_high=high[across],
        edge_until=np.cumsum(edges.seconds[across]),
    )  # fmt: skip
