"""What the integer programs of placement share: units of time, places that are alike, starts and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from solvers.programs.integer_program import Model

SCALE = 1e4
"""A typical objective is this to ten times as many units: solvers decide by absolute tolerances, operators of
microseconds must not vanish in them, and programs in seconds are solved wrongly."""

TOLERANCE = 1e-6
"""Relative error that a solver's own tolerances (1e-6 on integrality and rows) may leave in a bound:
bounds are lowered by it before anything is concluded, and objectives this close are called equal."""

Term = tuple[int, float]
"""A variable and its coefficient."""
Answer = TypeVar("Answer")
"""A placement, with its times where the program has such."""


class ScaledModel(Generic[Answer]):
    """A model whose times are in units of ``unit_s`` seconds, and what its variables are for a known answer."""

    def __init__(self, typical_s: float) -> None:
        self.unit_s = 10.0 ** math.floor(math.log10(typical_s)) / SCALE if 0 < typical_s < math.inf else 1.0
        self.model = Model()
        self._fill: list[Callable[[Answer, list[float]], None]] = []

    def on_fill(self, fill: Callable[[Answer, list[float]], None]) -> None:
        """Have variables filled in `values_of`, after those made before."""
        self._fill.append(fill)

    def values_of(self, answer: Answer) -> list[float]:
        """A value for every variable, the least that an answer allows; rules that it breaks show in
        ``model.violation``."""
        values = [0.0] * len(self.model)
        for fill in self._fill:
            fill(answer, values)
        return values

    def start_from(self, answer: Answer) -> bool:
        """Begin the search from an answer, if that is one of the program; whether it is."""
        values = self.values_of(answer)
        if self.model.violation(values) > TOLERANCE:
            return False
        self.model.start = values
        return True

    def placed(self, allowed: Sequence[Sequence[bool]], classes: Classes, rank: Sequence[int]) -> list[list[int]]:
        """x[thing][place], 1 where a thing is: each in one place that may have it. Of places that are alike the i-th
        heaviest thing is in one of the first i + 1. rank: of every thing by weight, 0 for the heaviest."""
        late = {place: position for alike in classes for position, place in enumerate(alike)}
        x = []
        for thing, row in enumerate(allowed):
            x.append([self.model.binary(allowed=a and late.get(p, 0) <= rank[thing]) for p, a in enumerate(row)])
            self.model.row([(variable, 1.0) for variable in x[-1]], 1.0, 1.0)
        return x

    def convex(
        self,
        rows: Sequence[Sequence[int]],
        edges: Sequence[tuple[int, int]],
        where: Callable[[Answer], Sequence[int]],
    ) -> None:
        """No path leaves a place and comes back: z[v][s], whether s can be reached from v, is 0 behind an edge that
        leaves it.

        rows: of x, for every node; nodes with one row are in one place. edges: by their heads in topological order.
        where: the place of every node, -1 for one that is in none of its row's.
        """
        model = self.model
        z = [[model.variable() for _ in row] for row in rows]
        for reached, row in zip(z, rows, strict=True):
            for there, here in zip(reached, row, strict=True):
                model.row([(there, 1.0), (here, -1.0)], least=0.0)
        for u, v in edges:
            for s in range(len(rows[u])):
                model.row([(z[u][s], 1.0), (z[v][s], -1.0)], least=0.0)
                if rows[u] is not rows[v]:
                    model.row([(z[v][s], 1.0), (rows[v][s], -1.0), (rows[u][s], 1.0)], most=1.0)

        def fill(answer: Answer, values: list[float]) -> None:
            reached = [{place} - {-1} for place in where(answer)]
            for u, v in reversed(edges):
                reached[u] |= reached[v]
            for v, places in enumerate(reached):
                for s in places:
                    values[z[v][s]] = 1.0

        self.on_fill(fill)


Classes = Sequence[Sequence[int]]
"""Places that are alike, in classes of two or more."""


def new_numbers(place: Mapping[int, int] | Sequence[int], heaviest: Sequence[int], classes: Classes) -> dict[int, int]:
    """For each of the places that are alike the one that takes its part, so that the i-th heaviest thing is in one of
    the first i + 1. place: of every thing. heaviest: things, the heaviest first."""
    new: dict[int, int] = {}
    for alike in classes:
        seen = list(dict.fromkeys(place[thing] for thing in heaviest if place[thing] in alike))
        new |= zip(seen + [p for p in alike if p not in seen], alike, strict=True)
    return new


def classes_of(keys: Mapping[int, Hashable]) -> list[list[int]]:
    """The places that have equal keys, in classes of two or more."""
    classes: dict[Hashable, list[int]] = {}
    for place, key in keys.items():
        classes.setdefault(key, []).append(place)
    return [alike for alike in classes.values() if len(alike) > 1]
