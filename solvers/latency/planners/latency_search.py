"""Simulated annealing over placements for the latency of one sample."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from solvers.coarsening.traffic import Rows
from solvers.kernels.arrays import Ints, members_of
from solvers.latency.latency_kernel import Scratch, scratch_for
from solvers.latency.model import LatencyModel, unsupported
from solvers.latency.planners.greedy_latency import GreedyLatency
from solvers.latency.planners.latency_common import (
    blocks_of,
    models,
    offer_places,
    on_cpus,
    piece_limit,
    places_of,
    raise_path_bounds,
)
from solvers.latency.planners.latency_dp import LatencyDP
from solvers.latency.planners.latency_search_kernel import Units, Walker, anneal, begin
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor

STEPS_A_SLICE = 1_500_000
"""Operator visits per kernel call: a few hundredths of a second."""

HEATS = (0.03, 0.1, 0.01, 0.003)
"""First temperatures of the runs, in turn, as a share of the latency that the run starts from."""

COLD = 1e-5
"""Last temperature of a run, as a share of that latency."""

FIRST_RUN = 20_000
"""Most moves of the first runs; after every cycle of heats they get longer."""

ZERO = 1e-300
"""A temperature at which nothing worse is accepted."""

QUENCH = 4
"""Moves at that temperature after a gain, per unit and place."""

RUN_MOVES = 200
"""... and at most so many per unit and place: small problems are done sooner."""

QUICK_DOWNSETS = 20_000
"""Downsets for which the program with sums takes a second or two."""

PATIENCE = 1_500
"""Moves without a gain, per unit and place, after which the search is over."""


@dataclass(frozen=True)
class LatencySearch:
    """Annealing from the best plan known, and now and then from another start, until time is up.

    Moves take co-location groups (blocks of groups, with one piece per accelerator) between
    accelerators and CPUs; a device's set is cut into the fewest convex pieces. moves: stop after so
    many, 0 for when there has been no gain for long.
    """

    name: ClassVar[str] = "latency-search"
    source: ClassVar[str] = "simulated annealing over the placements of Tarnawski et al., NeurIPS 2020, section 6"
    guarantee: ClassVar[str] = "heuristic"

    moves: int = 0

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        quick_starts(problem, monitor)
        raise_path_bounds(problem, monitor)
        left = self.moves or math.inf
        for model in models(problem, monitor):
            annealing = Annealing(model, piece_limit(problem), monitor)
            while left > 0 and not monitor.is_proved() and (self.moves or not annealing.tired):
                left -= annealing.run(left)
        return False


def quick_starts(problem: Problem, monitor: Monitor) -> None:
    """Offer the greedy plan and, of the program with sums, what takes little time."""
    GreedyLatency()(problem, monitor)
    if LatencyDP().unsupported(problem) is None:
        LatencyDP(downset_budget=QUICK_DOWNSETS)(problem, monitor)


class Annealing:
    """A search on one model with at most ``pieces`` pieces per accelerator."""

    def __init__(self, model: LatencyModel, pieces: int, monitor: Monitor) -> None:
        self.model, self.pieces, self.monitor = model, pieces, monitor
        operators = len(model.group_of)
        of = model.group_of if pieces > 1 else blocks_of(model.problem)
        self.units = units_of(model, of)
        count = len(self.units.nbytes)
        self.walker = Walker(
            np.zeros(count, np.int64), np.zeros(operators, np.int64), np.zeros(operators, np.int64),
            np.zeros(model.accelerators + 1), np.zeros(count, np.int64), np.zeros(3), np.zeros(count, np.int64),
            np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(1, np.int64),
        )  # fmt: skip
        # The kernel must not take an operator where it cannot be, though it may start with it there.
        seconds = np.where(model.allowed[model.group_of].T, model.calls.seconds, np.inf)
        self.calls = model.calls._replace(seconds=seconds)
        self.work: Scratch = scratch_for(operators, model.accelerators, pieces)
        self.runs = 0
        self.idle = 0
        self.extent = count * (model.accelerators + 1)
        self.length = min(FIRST_RUN, RUN_MOVES * self.extent)
        levels = 1 if pieces == 1 else model.accelerators
        visits = operators * (4 + levels // 2) + 2 * len(model.calls.reader)
        self.slice = max(100, STEPS_A_SLICE // max(1, visits))

    @property
    def tired(self) -> bool:
        """Whether there has been no gain for long, at several heats."""
        return self.runs >= 2 * len(HEATS) and self.idle > PATIENCE * self.extent

    def run(self, most: float) -> int:
        """One run from hot to cold, at most ``most`` moves; its number of moves. Every new best is offered."""
        heat = HEATS[self.runs % len(HEATS)]
        if self.runs and self.runs % len(HEATS) == 0:
            self.length *= 2
        length = int(min(self.length, most))
        self._start(from_best=self.runs % 3 != 2)
        self.runs += 1
        figures = self.walker.figures
        reference = figures[0] if math.isfinite(figures[0]) else float(self.model.calls.seconds.sum())
        figures[2] = max(reference * heat, ZERO)
        self._cool(length, (COLD / heat) ** (1 / length))
        if self.monitor.best is not None and self.idle < length:  # there was a gain: go down to the bottom
            self._start(from_best=True)
            figures[2] = ZERO
            self._cool(int(min(QUENCH * self.extent, length)), 1.0)
        return length

    def _cool(self, length: int, cooling: float) -> None:
        """``length`` moves in slices; every new best is offered."""
        figures = self.walker.figures
        known = min(self.monitor.objective_s, figures[1])
        done = 0
        while done < length:
            self.monitor.check()
            moves = min(self.slice, length - done)
            seed = self.monitor.rng.randrange(2**31)
            anneal(self.calls, self.units, self.walker, self.pieces, moves, cooling, seed, self.work)
            done += moves
            self.idle += moves
            if figures[1] < known * (1 - 1e-12):
                known = float(figures[1])
                self.idle = 0
                offer_places(self.model, self.monitor, self.walker.best_place[self.units.of])

    def _start(self, *, from_best: bool) -> None:
        """Put the walker on the best plan, or on another placement; preferably one that fits and runs."""
        for place in self._places(from_best):
            self.walker.unit_place[self.units.of] = place
            if (self.walker.unit_place[self.units.of] != place).any():
                continue  # the plan splits what moves as a whole
            begin(self.calls, self.units, self.walker, self.pieces, self.work)
            if math.isfinite(self.walker.figures[0]):
                return

    def _places(self, from_best: bool) -> Iterator[Ints]:
        if self.monitor.best is not None and from_best:
            yield places_of(self.model, self.monitor.best)
        if not from_best and self.monitor.best is not None:
            yield self.walker.place.copy()  # where the last run ended
            yield places_of(self.model, self.monitor.best)
        yield on_cpus(self.model)
        yield first_fit(self.model)


def first_fit(model: LatencyModel) -> Ints:
    """Groups, large ones first, each where the first of the places has room for it."""
    where = np.full(model.groups, model.accelerators)
    held = np.zeros(model.accelerators + 1)
    for group in np.argsort(-model.group_bytes, kind="stable").tolist():
        fits = model.allowed[group] & (held + model.group_bytes[group] <= model.caps)
        if fits.any():
            where[group] = int(np.argmax(fits))
        held[where[group]] += model.group_bytes[group]
    return np.asarray(where[model.group_of])


def units_of(model: LatencyModel, of: Ints) -> Units:
    """The kernel's view of what moves as a whole; ``of``: [operators] its number."""
    graph = model.problem.graph
    count = int(of.max()) + 1
    rows = Rows.of(members_of(of.tolist(), count))
    unit_of_group = np.zeros(model.groups, np.int64)
    unit_of_group[model.group_of] = of
    allowed = np.ones((count, model.accelerators + 1), bool)
    np.logical_and.at(allowed, unit_of_group, model.allowed)
    after, before = Rows.of(graph.successors), Rows.of(graph.predecessors)
    nbytes = np.bincount(unit_of_group, model.group_bytes, count).astype(np.float64)
    return Units(
        of, rows.start, rows.items, nbytes, allowed, model.caps, after.start, after.items, before.start,
        before.items,
    )  # fmt: skip
