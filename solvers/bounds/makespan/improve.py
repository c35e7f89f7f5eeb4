"""The longest makespan that can be ruled out with a stated effort."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from solvers.bounds.makespan.colocation import Colocation, colocation_of
from solvers.bounds.makespan.refute import Effort, Refuter
from solvers.bounds.makespan.shape import PassShape

NEAR = 1e-3
"""Of the makespan of the best plan: how near to it, or to what could not be ruled out, is near enough."""
JUST_BELOW = 1e-6
ROOT_SHARE, TRY_SHARE = 0.2, 0.3
"""Of the effort left, what one try may take: without cases, and with them."""


def improved_s(
    shape: PassShape,
    low_s: float,
    upper_s: float,
    check: Callable[[], None],
    effort: float,
    on_bound: Callable[[float], None] = lambda _: None,
) -> float:
    """A bound between ``low_s``, proved already, and ``upper_s``, the makespan of a plan.

    "Destructive improvement" (Klein and Scholl, EJOR 1999): a makespan T is assumed, and conclusions are drawn
    until they contradict each other; then every plan is longer than T. First without telling cases apart, then
    with a search over what shares a device (`Refuter`), each time for a T halfway to the least that could not
    be ruled out, and at last for one just below ``upper_s``. What holds of all plans up to one T holds of those
    up to any lesser one, so conclusions are kept. Deterministic in ``effort``, the arcs looked at; check may
    raise to stop. on_bound: called with every bound when it is proved, so that a stop loses none.
    """
    if not math.isfinite(upper_s) or low_s >= upper_s:
        return min(low_s, upper_s)
    search = _Search(shape, low_s, upper_s, check, effort, on_bound)
    search.without_cases()
    search.with_cases()
    return min(search.low_s, upper_s)


@dataclass
class _Search:
    """Makespans tried. left: of the effort; ``known``: what holds up to each of some makespans, the least last."""

    shape: PassShape
    low_s: float
    upper_s: float
    check: Callable[[], None]
    effort: float
    on_bound: Callable[[float], None]

    def __post_init__(self) -> None:
        self.left = self.effort
        self.known: list[tuple[float, Colocation]] = [(math.inf, colocation_of(self.shape))]

    def without_cases(self) -> None:
        """Rule out what needs no cases."""
        self._conclude(self.upper_s)
        self._halve(self._conclude)

    def with_cases(self) -> None:
        """Rule out more by telling cases apart."""
        high = self._halve(lambda limit: self._refutes(limit, TRY_SHARE))
        last = self.upper_s * (1 - JUST_BELOW)
        if high == self.upper_s and self.low_s < last and self.left > 0 and self._refutes(last, 1.0):
            self._raise(last)

    def _halve(self, rules_out: Callable[[float], bool]) -> float:
        """Try makespans halfway to the least that could not be ruled out, which is returned."""
        high = self.upper_s
        while self._goes_on(high):
            middle = (self.low_s + high) / 2
            if rules_out(middle):
                self._raise(middle)
            else:
                high = middle
        return high

    def _raise(self, proved_s: float) -> None:
        self.low_s = proved_s
        self.on_bound(proved_s)

    def _goes_on(self, high: float) -> bool:
        return high - self.low_s > NEAR * self.upper_s and self.left > self.effort / 50

    def _refuter(self, share: float) -> Refuter:
        effort = Effort(share * self.left, self.check)
        effort.spend(0.0)
        return Refuter(self.shape, effort)

    def _conclude(self, limit: float) -> bool:
        """Whether ``limit`` is ruled out; else what was learnt is kept."""
        refuter = self._refuter(ROOT_SHARE)
        before, known = refuter.effort.arcs, self.known[-1][1].copy()
        ruled_out = refuter.contradicts(limit, known)
        self.left -= before - max(0.0, refuter.effort.arcs)
        if not ruled_out:
            self.known.append((limit, known))
        return ruled_out

    def _refutes(self, limit: float, share: float) -> bool:
        refuter = self._refuter(share)
        before = refuter.effort.arcs
        start = next(known for up_to, known in reversed(self.known) if up_to >= limit)
        ruled_out = refuter.refutes(limit, start)
        self.left -= before - max(0.0, refuter.effort.arcs)
        return ruled_out
