"""A small integer program solved at once, in this process, by HiGHS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.programs.integer_program import Model
from solvers.programs.mip import WRONG_PRESOLVE


class Solved(NamedTuple):
    """values: of all variables, integers rounded; None if no solution was found. bound: no solution costs less."""

    values: list[float] | None
    bound: float


def solve_here(model: Model, *, nodes: int, gap: float) -> Solved:
    """nodes: of the tree at most, so that the answer is the same on every machine. gap: relative, that ends the
    search."""
    import highspy

    solver = highspy.Highs()
    options = {
        "output_flag": False, "threads": 1, "mip_max_nodes": nodes, "mip_rel_gap": gap, "random_seed": 0,
        **({"presolve": "off"} if solver.version() in WRONG_PRESOLVE else {}),
    }  # fmt: skip
    for name, value in options.items():
        solver.setOptionValue(name, value)
    count = len(model)
    lower, upper = np.array(model.lower, np.float64), np.array(model.upper, np.float64)
    upper[np.isinf(upper)] = highspy.kHighsInf
    solver.addVars(count, lower, upper)
    solver.changeColsCost(count, np.arange(count, dtype=np.int32), np.array(model.cost, np.float64))
    for column in np.flatnonzero(model.integer).tolist():
        solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
    for variables, coefficients, least, most in model.rows:
        solver.addRow(
            max(least, -highspy.kHighsInf), min(most, highspy.kHighsInf), len(variables),
            np.array(variables, np.int32), np.array(coefficients, np.float64),
        )  # fmt: skip
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Solved(None, info.mip_dual_bound)
    values = [
        float(round(value)) if whole else value
        for value, whole in zip(solver.getSolution().col_value, model.integer, strict=True)
    ]
    return Solved(values, float(info.mip_dual_bound))
