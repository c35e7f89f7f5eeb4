"""Plans nearly as fast as the best that need less memory."""

from __future__ import annotations

from solvers.plan.plan import Plan
from solvers.plan.result import Alternative

NEAR = 0.005
"""How much slower than the best, relatively, a plan may be that is offered beside it."""
SAVES = 0.01
"""The least share of the peak memory that such a plan saves."""
MOST = 3
"""So many are offered at most: the fastest, the leanest, and one between them."""


class Front:
    """Of all plans offered, those that none beats both in time and in peak memory, as far as they are near the best."""

    def __init__(self) -> None:
        self._plans: list[Alternative] = []

    def add(self, plan: Plan, objective_s: float, peak_bytes: float) -> None:
        """Tell a plan that fits. objective_s: seconds. peak_bytes: of the device that holds most."""
        if any(one.objective_s <= objective_s and one.peak_bytes <= peak_bytes for one in self._plans):
            return
        left = [one for one in self._plans if one.objective_s < objective_s or one.peak_bytes < peak_bytes]
        left.append(Alternative(plan, objective_s, peak_bytes))
        most_s = min(one.objective_s for one in left) * (1 + NEAR)
        self._plans = sorted((one for one in left if one.objective_s <= most_s), key=lambda one: one.objective_s)

    def beside(self, objective_s: float, peak_bytes: float) -> tuple[Alternative, ...]:
        """At most MOST plans that need less memory than the answer, the fastest first.

        Each needs less than the one before by SAVES of the answer's peak.

        objective_s: of the answer, seconds.
        peak_bytes: of the answer.
        """
        picked: list[Alternative] = []
        least = peak_bytes
        for one in self._plans:
            if one.objective_s <= objective_s * (1 + NEAR) and one.peak_bytes <= least - SAVES * peak_bytes:
                picked.append(one)
                least = one.peak_bytes
        if len(picked) > MOST:
            picked = [picked[0], picked[len(picked) // 2], picked[-1]]
        return tuple(picked)
