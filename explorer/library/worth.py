"""Which answers are kept, and which of two."""

from __future__ import annotations

import math

from explorer.library.rows import Listed
from solvers.plan.result import Result, Status, StopReason

ALIKE = 1e-9
"""Relative difference of objectives that are one and the same."""


def worth_keeping(result: Result) -> bool:
    """Whether it is an answer: complete, or as far as its time limit let it come. Nobody's cancel is one, and that
    nothing was found in some time says little."""
    if result.stop_reason is StopReason.CANCELLED:
        return False
    return result.status is not Status.NO_PLAN or result.stop_reason is not StopReason.TIME_LIMIT


def is_better(result: Result, told: Listed, seconds: tuple[float, float] | None = None) -> bool:
    """Than the answer that is kept: a better plan, or the same with more proved, or with the search at its end.
    seconds: of both, where something else than the objective tells the better plan."""
    takes_s, took_s = (result.objective_s, told.objective_s) if seconds is None else seconds
    if not math.isclose(takes_s, took_s, rel_tol=ALIKE):
        return takes_s < took_s
    if not math.isclose(result.bound_s, told.bound_s, rel_tol=ALIKE):
        return result.bound_s > told.bound_s
    return told.stop_reason == StopReason.TIME_LIMIT and result.stop_reason is not StopReason.TIME_LIMIT
