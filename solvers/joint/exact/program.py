"""Placement and schedule of clusters as an integer program (Pesto, Middleware 2021, section 3).

Completed where the paper leaves details open: a transfer is sent once per destination, links may share a
resource, and devices may differ in speed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from solvers.joint.exact.cluster_schedule import Timed
from solvers.joint.exact.cp_grid import alike
from solvers.joint.exact.program_transfers import sends_of, take_turns
from solvers.joint.passes.clusters import Clusters, longest_before
from solvers.kernels.arrays import Floats
from solvers.programs.scaled_model import ScaledModel, Term, new_numbers

ROUNDING = 1e-9
"""Relative error of sums of times."""
QUANTILES = (0.0, 0.25, 0.5, 0.75)
"""Where heads and tails are cut for rows of work between them."""


class PassProgram(ScaledModel[Timed]):
    """The integer program of clusters whose schedule lasts no longer than ``most_s``.

    ``x[unit][device]`` is 1 where a unit is, ``start[cluster]`` when it starts and ``lasts[cluster]`` how long it
    runs, in units of ``unit_s``; ``last``: the makespan, ``most`` at most. ``least``, ``head``, ``rest``: the shortest
    time of each cluster, and of what comes before and after it. A transfer is an operator of its own, as long as its
    ends are on different devices. Of two clusters, or transfers, that the graph leaves in any order an order variable
    says which goes first where both have one device, or link. nbytes: [units], held all the time on the device where
    a unit is.

    Beside the published rows: order variables only where the graph leaves an order open and both orders end in
    time; big coefficients from the earliest start of one and the latest end of the other; transfers along an
    edge without big coefficients; work between a head and a tail on every device, and on every link;
    interchangeable devices (the i-th heaviest unit is on the first i + 1 of them; see `renamed`). ``check`` is
    called often while the rows are written.
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
        self.sends = sends_of(self)
        self._precedence()
        self._devices()
        take_turns(self, self.sends)
        self._work()

    # ---------------------------------------------------------------- in and out

    def at_least(self, bound_s: float) -> None:
        """Tell the solver a lower bound, in seconds."""
        self.model.lower[self.last] = min(bound_s / self.unit_s, self.most)

    def answer(self, values: Sequence[float]) -> tuple[list[int], list[float]]:
        """(device of every unit, seconds at which every cluster starts) of a solution."""
        devices = range(self.clusters.devices)
        place = [max(devices, key=lambda d: values[row[d]]) for row in self.x]
        return place, [values[s] * self.unit_s for s in self.start]

    def sent(self, values: Sequence[float]) -> list[tuple[int, int, int, float]]:
        """(transfer, source, target, seconds at which it starts) of all that moves in a solution."""
        return [
            (send.number, source, target, values[send.start] * self.unit_s)
            for send in self.sends
            for (source, target, _), (moves, _) in zip(send.routes, send.delay, strict=True)
            if values[moves] > 0.5
        ]

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

    # ---------------------------------------------------------------- rows

    def _precedence(self) -> None:
        """Along every edge, with the longest transfer that it carries wherever its ends are."""
        carried: dict[tuple[int, int], Floats] = {}
        for transfer in self.clusters.transfers:
            for p, r in itertools.product(transfer.producers, transfer.readers):
                if self.unit_of[p] != self.unit_of[r]:
                    carried[p, r] = np.maximum(carried.get((p, r), 0.0), transfer.seconds / self.unit_s)
        for u, targets in enumerate(self.clusters.successors):
            self.check()
            for v in targets:
                delay: list[Term] = []
                if (u, v) in carried:
                    both = self.pair(self.unit_of[u], self.unit_of[v])
                    for (s, d), units in np.ndenumerate(carried[u, v]):
                        if math.isinf(units):
                            self.model.upper[both[s][d]] = 0.0
                        elif units > 0:
                            delay.append((both[s][d], float(units)))
                self.after(self.start[v], self.start[u], self.lasts[u], (delay, 0.0))
            self.after(self.last, self.start[u], self.lasts[u], ([], self.rest[u]))

    def _devices(self) -> None:
        """Of two clusters on one device, one after the other, unless the graph determines their order."""
        clusters, model = self.clusters, self.model
        reaches = clusters.reaches
        able = clusters.allowed & clusters.one_by_one
        for i, j in itertools.combinations(range(len(clusters)), 2):
            u, v = self.unit_of[i], self.unit_of[j]
            if reaches[i, j] or reaches[j, i] or not (able[u] & able[v]).any():
                continue
            self.check()
            forth, back = (max(0.0, self.most - self.rest[a] - self.head[b]) for a, b in ((i, j), (j, i)))
            one, other = (self.start[i], self.lasts[i]), (self.start[j], self.lasts[j])
            order = self.first(one, other, self.together(u, v), (forth, back))
            both_s = self.least[i] + self.least[j]
            if self.head[j] + both_s + self.rest[i] > self.most * (1 + ROUNDING):
                model.lower[order] = 1.0
            elif self.head[i] + both_s + self.rest[j] > self.most * (1 + ROUNDING):
                model.upper[order] = 0.0

            def fill(s: Timed, values: list[float], order: int = order, i: int = i, j: int = j) -> None:
                goes_first = (s.start_s[i], s.end_s[i]) <= (s.start_s[j], s.end_s[j])
                values[order] = min(max(float(goes_first), model.lower[order]), model.upper[order])

            self.on_fill(fill)

    def _work(self) -> None:
        """What starts late or has much after it: the work on a device between, and all that a link moves."""
        clusters = self.clusters
        heads = sorted({float(np.quantile(self.head, q)) for q in QUANTILES})
        tails = sorted({float(np.quantile(self.rest, q)) for q in QUANTILES})
        for d in np.flatnonzero(clusters.one_by_one).tolist():
            for a, b in itertools.product(heads, tails):
                inside = [c for c in range(len(clusters)) if self.head[c] >= a and self.rest[c] >= b]
                work: list[Term] = []
                for c in inside:
                    unit = self.unit_of[c]
                    if clusters.allowed[unit, d]:
                        work.append((self.x[unit][d], -float(clusters.seconds[c, d]) / self.unit_s))
                if work:
                    self.model.row([(self.last, 1.0), *work], least=a + b)
        for link in sorted({link for send in self.sends for link in send.uses}):
            moved = [(v, -t) for send in self.sends for v, t in send.moves.get(link, ())]
            users = [send for send in self.sends if link in send.uses]
            first = min(send.head for send in users)
            rest = min(min(self.rest[r] + self.least[r] for r in send.readers) for send in users)
            # Also where nothing is moved: every path through a transfer's ends is that long.
            self.model.row([(self.last, 1.0), *moved], least=first + rest)


def renamed(clusters: Clusters, place: Sequence[int]) -> list[int]:
    """The same placement of units with interchangeable devices renumbered as the program wants them."""
    new = new_numbers(place, heaviest(clusters), alike(clusters.model))
    return [new.get(int(device), int(device)) for device in place]


def heaviest(clusters: Clusters) -> list[int]:
    """Units by the most time that they take, the longest first."""
    work = np.where(np.isfinite(clusters.seconds), clusters.seconds, 0.0).max(axis=1)
    order: list[int] = np.argsort(-np.bincount(clusters.unit_of, work, clusters.units), kind="stable").tolist()
    return order
