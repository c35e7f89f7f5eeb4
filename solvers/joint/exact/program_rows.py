"""What the rows of a pass's integer program are made of: units, their places and times, and who goes first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from solvers.joint.exact.cluster_schedule import Timed
from solvers.joint.exact.cp_grid import alike
from solvers.joint.passes.clusters import Clusters, longest_before
from solvers.kernels.arrays import Floats
from solvers.programs.scaled_model import ScaledModel, Term

ROUNDING = 1e-9
"""Relative error of sums of times."""


class PassRows(ScaledModel[Timed]):
    """Variables of where the units of ``clusters`` are and when clusters start, and ways to write rows on them.

    ``x[unit][device]`` is 1 where a unit is, ``start[cluster]`` when it starts and ``lasts[cluster]`` how long it
    runs, in units of ``unit_s``; ``last``: the makespan, ``most`` at most. ``least``, ``head``, ``rest``: the
    shortest time of each cluster, and of what comes before and after it. nbytes: [units], held all the time on
    the device where a unit is. ``check`` is called often while rows are written.
    """

    def __init__(
        self, clusters: Clusters, nbytes: Floats, most_s: float, check: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(most_s)
        self.clusters, self.nbytes, self.check = clusters, nbytes, check
        self.most = most_s / self.unit_s
        self._pairs: dict[tuple[int, int], list[list[int]]] = {}
        self.unit_of = clusters.unit_of.tolist()
        able = np.where(clusters.allowed[clusters.unit_of], clusters.seconds, np.inf).min(axis=1) / self.unit_s
        self.least: list[float] = np.where(np.isfinite(able), able, 0.0).tolist()
        self.head = longest_before(clusters.predecessors, self.least)
        self.rest = longest_before(clusters.successors, self.least, back=True)
        self.last = self.model.variable(0.0, self.most, cost=1.0)
        rank = np.argsort(heaviest(clusters)).tolist()
        self.x = self.placed(clusters.allowed.tolist(), alike(clusters.model), rank)
        self._memory()
        self.start = [
            self.model.variable(h, max(h, self.most - r - p))
            for h, r, p in zip(self.head, self.rest, self.least, strict=True)
        ]
        self.lasts = [self._duration(c) for c in range(len(clusters))]

        def fill(schedule: Timed, values: list[float]) -> None:
            values[self.last] = schedule.makespan_s / self.unit_s
            for row, device in zip(self.x, schedule.place, strict=True):
                values[row[device]] = 1.0
            for variable, start_s in zip(self.start, schedule.start_s, strict=True):
                values[variable] = start_s / self.unit_s

        self.on_fill(fill)

    # ---------------------------------------------------------------- placement

    def _memory(self) -> None:
        for d, cap in enumerate(self.clusters.model.memory_bytes.tolist()):
            if self.nbytes.sum() > cap * (1 + ROUNDING) and cap > 0:
                # A cap has the rounding that plans are judged with, and the solver's own tolerance comes on top.
                terms = [(self.x[u][d], float(b) / (cap * (1 + ROUNDING))) for u, b in enumerate(self.nbytes)]
                self.model.row(terms, most=1.0)

    def pair(self, one: int, other: int) -> list[list[int]]:
        """[device][device] variables, 1 where the one unit and the other are (implied by x); each sums to x."""
        if one > other:
            return [list(column) for column in zip(*self.pair(other, one), strict=True)]
        if (one, other) not in self._pairs:
            devices = range(self.clusters.devices)
            both = [[self.model.variable() for _ in devices] for _ in devices]
            for d in devices:
                self.model.row([*((both[d][e], 1.0) for e in devices), (self.x[one][d], -1.0)], 0.0, 0.0)
                self.model.row([*((both[e][d], 1.0) for e in devices), (self.x[other][d], -1.0)], 0.0, 0.0)
            self._pairs[one, other] = both
            self.on_fill(lambda s, values: values.__setitem__(both[s.place[one]][s.place[other]], 1.0))
        return self._pairs[one, other]

    def together(self, one: int, other: int) -> tuple[list[Term], float]:
        """An expression (terms, constant) that is 1 if two units have one device that runs one cluster at a time."""
        exclusive = [d for d in range(self.clusters.devices) if self.clusters.one_by_one[d]]
        if one == other:
            whole = len(exclusive) == self.clusters.devices
            return ([], 1.0) if whole else ([(self.x[one][d], 1.0) for d in exclusive], 0.0)
        both = self.pair(one, other)
        return [(both[d][d], 1.0) for d in exclusive], 0.0

    # ---------------------------------------------------------------- times

    def _duration(self, cluster: int) -> tuple[list[Term], float]:
        """How long a cluster runs, as (terms, constant)."""
        unit = self.unit_of[cluster]
        able = [d for d in range(self.clusters.devices) if self.clusters.allowed[unit, d]]
        times = {d: float(self.clusters.seconds[cluster, d]) / self.unit_s for d in able}
        if len(set(times.values())) <= 1:
            return [], next(iter(times.values()), 0.0)
        return [(self.x[unit][d], t) for d, t in times.items()], 0.0

    def after(self, later: int, earlier: int, *delays: tuple[Sequence[Term], float]) -> None:
        """Require one time to be no earlier than another plus delays, each (terms, constant)."""
        terms = [(v, -c) for delay, _ in delays for v, c in delay]
        self.model.row([(later, 1.0), (earlier, -1.0), *terms], least=math.fsum(c for _, c in delays))

    def first(
        self, one: tuple[int, tuple[list[Term], float]], other: tuple[int, tuple[list[Term], float]],
        both: tuple[list[Term], float], big: tuple[float, float], order: int | None = None,
    ) -> int:  # fmt: skip
        """Rows that let one of two, each (start, duration), end before the other starts where ``both``, an
        expression, is 1 (and none where it is 0 or less); their order variable, 1 where ``one`` is first. big:
        most by which ``one`` may end after the other's start, and the other way round."""
        order = self.model.binary() if order is None else order
        (a, a_lasts), (b, b_lasts) = one, other
        terms, constant = both
        forth, back = big
        self.after(
            b, a, a_lasts, ([(order, forth)], -forth), ([(v, forth * c) for v, c in terms], forth * (constant - 1))
        )  # fmt: skip
        self.after(
            a, b, b_lasts, ([(order, -back)], 0.0), ([(v, back * c) for v, c in terms], back * (constant - 1))
        )  # fmt: skip
        return order


def heaviest(clusters: Clusters) -> list[int]:
    """Units by the most time that they take, the longest first."""
    work = np.where(np.isfinite(clusters.seconds), clusters.seconds, 0.0).max(axis=1)
    order: list[int] = np.argsort(-np.bincount(clusters.unit_of, work, clusters.units), kind="stable").tolist()
    return order
