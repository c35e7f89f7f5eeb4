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
from solvers.joint.exact.program_rows import ROUNDING, PassRows, heaviest
from solvers.joint.exact.program_transfers import sends_of, take_turns
from solvers.joint.passes.clusters import Clusters
from solvers.kernels.arrays import Floats
from solvers.programs.scaled_model import Term, new_numbers

QUANTILES = (0.0, 0.25, 0.5, 0.75)
"""Where heads and tails are cut for rows of work between them."""


class PassProgram(PassRows):
    """The integer program of clusters whose schedule lasts no longer than ``most_s``.

    ``x[unit][device]`` is 1 where a unit is, ``start[cluster]`` when it starts in units of ``unit_s``, ``last``
    the makespan. A transfer is an operator of its own, as long as its ends are on different devices. Of two clusters,
    or transfers, that the graph leaves in any order an order variable says which goes first where both have one
    device, or link. nbytes: [units], held all the time on the device where a unit is.

    Beside the published rows: order variables only where the graph leaves an order open and both orders end in
    time; big coefficients from the earliest start of one and the latest end of the other; transfers along an
    edge without big coefficients; work between a head and a tail on every device, and on every link;
    interchangeable devices (the i-th heaviest unit is on the first i + 1 of them; see `renamed`). ``check`` is
    called often while the rows are written.
    """

    def __init__(
        self, clusters: Clusters, nbytes: Floats, most_s: float, check: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(clusters, nbytes, most_s, check)
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
        """Of two clusters on one device, one after the other, unless the graph tells their order."""
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
