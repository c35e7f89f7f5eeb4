"""The most valuable set of one accelerator within a target load: pricing of the cover bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.bounds.cover.diagram import Diagram
from solvers.bounds.cover.model import ROUNDING, CoverModel
from solvers.bounds.cover.pricing_kernel import (
    DROP,
    GIVE_UP,
    JOIN,
    Layers,
    Outlook,
    Search,
    Worth,
    best_within,
    relaxed_path,
    relaxed_values,
)
from solvers.kernels.arrays import Bools, Floats

SLACK = 1e-9
"""Relative slack of the target, so that rounding turns no set away."""


@dataclass(frozen=True, slots=True)
class Priced:
    """bound: no set within the target is worth more. sets: valuable candidates. exact: the search was
    complete, otherwise more labels give a better bound and better sets."""

    bound: float
    sets: list[Bools]
    exact: bool


class Pricing:
    """Sets with a load of at most ``target_s`` and the highest sum of prices.

    Where compute and communication overlap, each is at most the target, hence also their average
    with weights ``share`` and 1 - share: that is what counts as load here, which lets more sets in
    (labels keep compute besides, and no bytes).
    """

    def __init__(self, model: CoverModel, diagram: Diagram, target_s: float, share: float = 0.5) -> None:
        self.model, self.diagram, self.target_s = model, diagram, target_s
        self._limit = 1.0 + SLACK  # loads are counted in targets
        compute, moved = (share, 1.0 - share) if model.overlapped else (1.0, 1.0)
        self._layers = Layers(
            diagram.layer, diagram.child, diagram.moved_s * (moved / target_s), diagram.arcs_start, diagram.arcs
        )
        self._weight = model.acc_s[diagram.order] * (compute / target_s)
        # What labels must keep besides the load: compute where it overlaps, else bytes (once a set breaks the cap).
        self._held = model.acc_s[diagram.order] / target_s if model.overlapped else np.zeros(len(self._weight))
        self._cap = self._limit if model.overlapped else model.acc_bytes * (1 + ROUNDING)
        self._least = np.empty(len(diagram.child))
        self._values(np.zeros(len(self._weight)), 1.0, self._least)
        self._least = -self._least
        self._theta = 1.0

    def _values(self, gain: Floats, price: float, into: Floats) -> None:
        relaxed_values(self._layers, self._worth(gain), price, into)

    def _worth(self, gain: Floats) -> Worth:
        return Worth(gain, self._weight, self._held)

    def best(self, prices: Floats, threshold: float, useful: float = 1.0, many: int = 8, most: int = 300_000) -> Priced:
        """The bound (never below ``threshold``) and up to ``many`` sets, if possible worth over ``useful``.

        Exact labels are few only just below the Lagrangian bound, so the search looks ever further
        below it until there is something, nothing exceeds the threshold, or there are too many labels.
        """
        priced = self._best(prices, threshold, useful, many, most)
        if self.model.overlapped or self._held.any() or all(self.model.fits_memory(inside) for inside in priced.sets):
            return priced
        self._held = self.model.nbytes[self.diagram.order]  # from now on: labels that count bytes are more
        return self._best(prices, threshold, useful, many, most)

    def _best(self, prices: Floats, threshold: float, useful: float, many: int, most: int) -> Priced:
        d, gain = self.diagram, prices[self.diagram.order]
        theta, bound, sets = self._relaxed(gain, threshold)
        if bound <= threshold:
            return Priced(threshold, sets, True)
        grid = theta * np.array([1.0, 0.9, 1.1, 0.7, 1.4])
        values = np.empty((len(grid), len(d.child)))
        for row, price in zip(values, grid, strict=True):
            self._values(gain, price, row)
        outlook = Outlook(grid, values, self._least)

        def search(above: float, crowded: int) -> tuple[float, list[Bools]]:
            sought = Search(self._layers, self._worth(gain), outlook, self._limit, self._cap, above)
            worth, paths = best_within(sought, most, many, crowded)
            return worth, [self._set(path) for path in paths]

        step = max((bound - threshold) / 64, 1e-4 * bound)
        above = bound
        while above > threshold:
            above = max(threshold, bound - step)
            worth, paths = search(above, GIVE_UP)
            if np.isinf(worth):
                worth, _ = search(above, JOIN)
                _, paths = search(min(useful, above), DROP)
                return Priced(min(bound, worth), paths + sets, False)
            bound = min(bound, worth)
            if paths:
                return Priced(bound, paths + sets, True)
            step *= 4
        return Priced(bound, sets, True)

    def subset(self, inside: Bools) -> Bools | None:
        """A heavy part of a set that is within the target."""
        gain = np.where(inside, self.model.acc_s / self.target_s + 1e-3, -1.0)[self.diagram.order]
        _, _, feasible = self._relaxed(gain, 0.0, 12)
        return feasible[-1] if feasible else None

    def partition(self, prices: Floats, sets: int) -> list[Bools]:
        """Sets that share the groups out among them: each is valuable without those before it."""
        gain = prices[self.diagram.order].copy()
        sharing = []
        for _ in range(sets):
            _, _, feasible = self._relaxed(gain, 0.0, 10)
            if not feasible:
                break
            sharing.append(feasible[-1])
            gain[feasible[-1][self.diagram.order]] = 0.0
        return sharing

    def _set(self, path: Bools) -> Bools:
        inside = np.zeros(len(self.model), bool)
        inside[self.diagram.order[path]] = True
        return inside

    def _relaxed(self, gain: Floats, threshold: float, steps: int = 24) -> tuple[float, float, list[Bools]]:
        """(price of load, Lagrangian bound, sets met): the price by bisection on the load of the best path."""
        value = np.empty(len(self.diagram.child))
        low, high = 0.0, np.inf
        theta, best, best_theta = self._theta, np.inf, self._theta
        sets = []
        for _ in range(steps):
            self._values(gain, theta, value)
            bound = float(value[0]) + theta * self._limit
            if bound < best:
                best, best_theta = bound, theta
            if best <= threshold:
                break
            path, load = relaxed_path(self._layers, self._worth(gain), theta, value)
            if load > self._limit:
                low = theta
            else:
                sets.append(self._set(path))
                high = theta
            if high < low * (1 + 1e-3):
                break
            theta = 2 * theta if np.isinf(high) else 0.5 * (low + high) if low > 0 else 0.5 * high
        self._theta = max(best_theta, 1e-6)
        return best_theta, best, sets[-3:]
