"""The most valuable set of one accelerator within a target load: pricing of the cover bound, as a path in a decision
diagram or, for models whose diagrams are too wide to be searched, as an integer program.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from solvers.bounds.cover.diagram import Diagram
from solvers.bounds.cover.model import ROUNDING, CoverModel
from solvers.bounds.cover.pricing_kernel import (
    DROP,
    GIVE_UP,
    JOIN,
    Outlook,
    Search,
    Worth,
    best_within,
    relaxed_path,
    relaxed_values,
)
from solvers.kernels.arrays import Bools, Floats
from solvers.programs.mip import WRONG_PRESOLVE

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
        self._layers = diagram.layers._replace(moved=diagram.layers.moved * (moved / target_s))
        self._weight = model.acc_s[diagram.order] * (compute / target_s)
        # What labels must keep besides the load: compute where it overlaps, else bytes (once a set breaks the cap).
        self._held = model.acc_s[diagram.order] / target_s if model.overlapped else np.zeros(len(self._weight))
        self._cap = self._limit if model.overlapped else model.acc_bytes * (1 + ROUNDING)
        self._least = np.empty(len(self._layers.child))
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
        gain = prices[self.diagram.order]
        theta, bound, sets = self._relaxed(gain, threshold)
        if bound <= threshold:
            return Priced(threshold, sets, True)
        grid = theta * np.array([1.0, 0.9, 1.1, 0.7, 1.4])
        values = np.empty((len(grid), len(self._layers.child)))
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
        """Disjoint sets of groups: each is valuable without those before it."""
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
        value = np.empty(len(self._layers.child))
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


TOLERANCE = 1e-6
"""Relative part that is added to what the solver proves, for its own tolerances."""
CHECK_S = 0.05
"""How often the solver checks whether to go on."""


class ProgramPricing:
    """Sets with a load of at most ``target_s`` and the highest sum of prices: one binary variable a group, and for
    every net one that is 1 if the set splits it (at least x_a - x_b for neighbours round its pins)."""

    def __init__(self, model: CoverModel, target_s: float) -> None:
        import highspy

        self.model, self.target_s = model, target_s
        groups, nets = len(model), len(model.nets)
        self._solver = solver = highspy.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0), ("mip_abs_gap", 1e-7)):
            solver.setOptionValue(option, value)
        if solver.version() in WRONG_PRESOLVE:
            solver.setOptionValue("presolve", "off")
        able = model.allowed & (model.acc_s <= target_s * (1 + SLACK))
        solver.addVars(groups + nets, np.zeros(groups + nets), np.concatenate([able.astype(float), np.ones(nets)]))
        whole = np.array([highspy.HighsVarType.kInteger] * groups)
        solver.changeColsIntegrality(groups, np.arange(groups, dtype=np.int32), whole)
        inside, split = np.arange(groups, dtype=np.int32), np.arange(groups, groups + nets, dtype=np.int32)
        compute, moved = model.acc_s / target_s, model.net_s / target_s
        if model.overlapped:
            self._at_most(1.0 + SLACK, inside, compute)
            self._at_most(1.0 + SLACK, split, moved)
        else:
            self._at_most(1.0 + SLACK, np.concatenate([inside, split]), np.concatenate([compute, moved]))
        if math.isfinite(model.acc_bytes) and model.acc_bytes > 0:
            self._at_most(1.0 + ROUNDING, inside, model.nbytes / model.acc_bytes)
        for net, pins in enumerate(model.nets):
            for first, second in zip(pins, (*pins[1:], pins[0]), strict=True):
                if first != second:
                    members = np.array([groups + net, first, second], np.int32)
                    solver.addRow(0.0, math.inf, 3, members, np.array([1.0, -1.0, 1.0]))

    def _at_most(self, limit: float, members: Any, weights: Floats) -> None:
        self._solver.addRow(-math.inf, limit, len(members), members, weights)

    def best(self, prices: Floats, threshold: float, useful: float, go_on: Callable[[], bool]) -> Priced:
        """As `Pricing.best`: the bound (never below ``threshold``, at which the search ends), and the best sets that
        were met and are worth more than ``useful``. Exact unless ``go_on()`` turned false."""
        import highspy

        solver, groups = self._solver, len(self.model)
        candidates: list[tuple[float, Bools]] = []
        stopped, checked_s = False, -math.inf

        def add(values: Any) -> None:
            inside = np.asarray(values)[:groups] > 0.5
            candidates.append((float(prices[inside].sum()), inside))

        def callback(kind: Any, _text: str, out: Any, into: Any, _data: Any) -> None:
            nonlocal stopped, checked_s
            if kind == highspy.cb.HighsCallbackType.kCallbackMipImprovingSolution:
                add(out.mip_solution)
                return
            if time.monotonic() - checked_s > CHECK_S:
                checked_s = time.monotonic()
                stopped = stopped or not go_on()
            into.user_interrupt = stopped or -out.mip_dual_bound * (1 + TOLERANCE) <= threshold

        solver.clearSolver()
        solver.changeColsCost(groups, np.arange(groups, dtype=np.int32), -prices)
        solver.setCallback(callback, None)
        for kind in ("kCallbackMipImprovingSolution", "kCallbackMipInterrupt"):
            solver.startCallback(getattr(highspy.cb.HighsCallbackType, kind))
        solver.run()
        if solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            add(solver.getSolution().col_value)
        bound = -float(solver.getInfo().mip_dual_bound) * (1 + TOLERANCE)
        most = float(prices[self.model.allowed].clip(min=0.0).sum())
        sets = [inside for worth, inside in sorted(candidates, key=lambda one: -one[0])[:4] if worth > useful]
        return Priced(max(threshold, min(bound, most) if math.isfinite(bound) else most), sets, not stopped)
