"""The same pricing as an integer program, for models whose decision diagrams are too wide to be searched."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from solvers.bounds.cover.model import ROUNDING, CoverModel
from solvers.bounds.cover.pricing import SLACK, Priced
from solvers.kernels.arrays import Bools, Floats
from solvers.programs.mip import WRONG_PRESOLVE

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

        def heard(kind: Any, _text: str, out: Any, into: Any, _data: Any) -> None:
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
        solver.setCallback(heard, None)
        for kind in ("kCallbackMipImprovingSolution", "kCallbackMipInterrupt"):
            solver.startCallback(getattr(highspy.cb.HighsCallbackType, kind))
        solver.run()
        if solver.getInfo().primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            add(solver.getSolution().col_value)
        bound = -float(solver.getInfo().mip_dual_bound) * (1 + TOLERANCE)
        most = float(prices[self.model.allowed].clip(min=0.0).sum())
        sets = [inside for worth, inside in sorted(candidates, key=lambda one: -one[0])[:4] if worth > useful]
        return Priced(max(threshold, min(bound, most) if math.isfinite(bound) else most), sets, not stopped)
