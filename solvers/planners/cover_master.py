"""The linear program of the cover bound: how many accelerators cover all groups."""

from __future__ import annotations

import numpy as np

from solvers.planners.cover_model import CoverModel, Flags, Floats


class Master:
    """Fewest accelerators, fractionally, that cover what the CPUs leave, with the sets added so far.

    Every group is covered by accelerator sets, by the CPUs (one fractional knapsack of all their
    time) or at a cost of 1, which is an upper bound on its price. Its prices are the dual values.
    """

    def __init__(self, model: CoverModel, target_s: float) -> None:
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
        for group in range(groups):
            lp.addCol(1.0, 0.0, self._inf, 1, np.array([group], np.int32), np.ones(1))
            if on_cpu[group]:
                share = np.array([1.0, model.cpu_s[group] / target_s])
                lp.addCol(0.0, 0.0, 1.0, 2, np.array([group, groups], np.int32), share)
        self._seen: set[bytes] = set()

    def add(self, inside: Flags) -> bool:
        """Add a set; False if it was there or is empty."""
        key = np.packbits(inside).tobytes()
        if key in self._seen or not inside.any():
            return False
        self._seen.add(key)
        rows = np.flatnonzero(inside).astype(np.int32)
        self._lp.addCol(1.0, 0.0, self._inf, len(rows), rows, np.ones(len(rows)))
        return True

    def solve(self) -> tuple[float, Floats]:
        """(number of accelerators, price of every group); (inf, zeros) if the program was not solved."""
        import highspy

        self._lp.run()
        if self._lp.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return np.inf, np.zeros(len(self.model))
        prices = np.array(self._lp.getSolution().row_dual[: len(self.model)])
        return float(self._lp.getInfo().objective_function_value), np.maximum(prices, 0.0)
