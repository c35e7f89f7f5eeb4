"""The longest makespan that can be ruled out with a stated effort."""

from __future__ import annotations

import math
from collections.abc import Callable

from solvers.makespan_bounds.beliefs import Beliefs, beliefs
from solvers.makespan_bounds.refute import Effort, Refuter
from solvers.makespan_bounds.shape import PassShape

NEAR = 1e-3
"""Of the makespan of the best plan: how near to it, or to what could not be ruled out, is near enough."""
JUST_BELOW = 1e-6
ROOT_SHARE, TRY_SHARE = 0.05, 0.3
"""Of the effort left, what one try may take: without cases, and with them."""


def improved_s(shape: PassShape, low_s: float, upper_s: float, check: Callable[[], None], effort: float) -> float:
    """A bound between ``low_s``, proved already, and ``upper_s``, the makespan of a plan.

    "Destructive improvement" (Klein and Scholl, EJOR 1999): a makespan T is assumed, and conclusions are drawn
    until they contradict each other; then every plan is longer than T. First without telling cases apart, then
    with a search over what shares a device (`Refuter`), each time for a T halfway to the least that could not
    be ruled out, and at last for one just below ``upper_s``. Deterministic in ``effort``, the arcs looked at;
    check may raise to stop.
    """
    if not math.isfinite(upper_s) or low_s >= upper_s:
        return min(low_s, upper_s)
    start = beliefs(shape)
    left = effort
    for share, cases in ((ROOT_SHARE, False), (TRY_SHARE, True)):
        high = upper_s
        while high - low_s > NEAR * upper_s and left > effort / 50:
            ruled_out, spent = _try(shape, (low_s + high) / 2, start, Effort(share * left, check), cases)
            left -= spent
            if ruled_out:
                low_s = (low_s + high) / 2
            else:
                high = (low_s + high) / 2
        last = upper_s * (1 - JUST_BELOW)
        if high == upper_s and low_s < last and left > 0:
            ruled_out, spent = _try(shape, last, start, Effort(left, check), cases)
            left -= spent
            low_s = last if ruled_out else low_s
    return min(low_s, upper_s)


def _try(shape: PassShape, limit_s: float, start: Beliefs, effort: Effort, cases: bool) -> tuple[bool, float]:
    """(whether ``limit_s`` is ruled out, the arcs looked at)."""
    effort.spend(0.0)
    before = effort.arcs
    ruled_out = Refuter(shape, effort, cases=cases).refutes(limit_s, start)
    return ruled_out, before - max(0.0, effort.arcs)
