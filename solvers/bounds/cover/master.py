"""The linear program of the cover bound: how many accelerators cover all groups."""

from __future__ import annotations

import numpy as np

from solvers.bounds.cover.model import CoverModel
from solvers.kernels.arrays import Bools, Floats


class Master:
    """Fewest accelerators, fractionally, that cover what the CPUs leave, with the sets added so far.

    Every group is covered by accelerator sets, by the CPUs (one fractional knapsack of all their
    time; or, with ``whole_cpus``, by sets of which each CPU has one) or, as if by an
    accelerator of its own, at a cost that bounds its price: 1 where that is possible. Its prices are
    the dual values.
    """

    def __init__(self, model: CoverModel, target_s: float, *, whole_cpus: bool = False) -> None:
        import highspy

        self.model = model
        self._inf = highspy.kHighsInf
        self._lp = lp = highspy.Highs()
        lp.setOptionValue("output_flag", False)
        lp.setOptionValue("threads", 1)
        nothing, none = np.zeros(0, np.int32), np.zeros(0)
        groups = len(model)
        for _ in range(groups):
            lp.addRow(1.0, self._inf, 0, nothing, none)
        lp.addRow(-self._inf, float(model.cpus), 0, nothing, none)
        on_cpu = model.on_cpu(target_s)
        cost = np.where(model.fits_alone(target_s), 1.0, model.accelerators + 1.0)
        for group in range(groups):
            lp.addCol(cost[group], 0.0, self._inf, 1, np.array([group], np.int32), np.ones(1))
            if on_cpu[group] and not whole_cpus:
                share = np.array([1.0, model.cpu_s[group] / target_s])
                lp.addCol(0.0, 0.0, 1.0, 2, np.array([group, groups], np.int32), share)
        self._seen: set[bytes] = set()
        self.cpu_price = 0.0

    def add(self, inside: Bools, *, on_cpu: bool = False) -> bool:
        """Add a set of an accelerator or of a whole CPU; False if it was there or is empty."""
        key = np.packbits(inside).tobytes() + bytes([on_cpu])
        if key in self._seen or not inside.any():
            return False
        self._seen.add(key)
        rows = np.flatnonzero(inside).astype(np.int32)
        if on_cpu:
            rows = np.append(rows, np.int32(len(self.model)))
        self._lp.addCol(0.0 if on_cpu else 1.0, 0.0, self._inf, len(rows), rows, np.ones(len(rows)))
        return True

    def solve(self) -> tuple[float, Floats]:
        """(number of accelerators, price of every group); (inf, zeros) if the program was not solved."""
        import highspy

        self._lp.run()
        if self._lp.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return np.inf, np.zeros(len(self.model))
        prices = np.array(self._lp.getSolution().row_dual[: len(self.model)])
        self.cpu_price = max(0.0, -float(self._lp.getSolution().row_dual[len(self.model)]))
        return float(self._lp.getInfo().objective_function_value), np.maximum(prices, 0.0)
