"""The longest makespan that can be ruled out with a stated effort: what must share a device, and what cannot, until
nothing is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from solvers.bounds.makespan.anchored_paths_kernel import FREE, WITH, Paths, around
from solvers.bounds.makespan.colocation import Colocation, Contradiction, colocation_of
from solvers.bounds.makespan.one_machine_kernel import longest_span, shared_span
from solvers.bounds.makespan.quick import ends, prices
from solvers.bounds.makespan.shape import ROUNDING, PassShape

THRESHOLDS = 200
CHANGES = 8
"""How much must be learnt before heads and tails are computed again, below the root."""
DEEPEST = 100
"""How many cases may be nested; each has its own `Colocation`, a byte for every two groups."""
RISE = 1e-3
"""Of the makespan, how much all heads and tails together must rise to be worth drawing conclusions again."""


class Spent(Exception):
    """The effort allowed is used up."""


@dataclass
class Effort:
    """How much may be done, in arcs looked at, and a callable that may raise to stop."""

    arcs: float
    check: Callable[[], None]

    def spend(self, arcs: float) -> None:
        """Raises Spent if there is no more."""
        self.check()
        self.arcs -= arcs
        if self.arcs < 0:
            raise Spent


@dataclass
class Refuter:
    """Rules out makespans of one pass. window: as in `delayed_heads_kernel`; anchors: clusters looked around at every
    node below the root."""

    shape: PassShape
    effort: Effort
    window: int = 256
    anchors: int = 4
    nodes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        shape = self.shape
        self.priced = shape.least_priced(prices(shape).per_second)
        self.cap = float(shape.caps.max()) * (1 + ROUNDING)
        self.devices = shape.seconds.shape[1]
        sides = (shape.operators, 2)
        self.paths = Paths(np.empty(sides), np.empty(sides), np.empty((shape.groups, 2)))

    def refutes(self, limit_s: float, start: Colocation) -> bool:
        """Whether no plan as short as ``limit_s`` exists; False may also mean that effort is spent."""
        try:
            return self._refutes(limit_s, start.copy(), 0)
        except Spent:
            return False

    def contradicts(self, limit_s: float, known: Colocation) -> bool:
        """The same without distinguishing cases; what is learnt is kept in ``known``."""
        try:
            self.propagate(limit_s, known, None)
        except Contradiction:
            return True
        except Spent:
            pass
        return False

    def _refutes(self, limit: float, known: Colocation, depth: int) -> bool:
        self.nodes += 1
        try:
            self.propagate(limit, known, self.anchors if depth else None)
        except Contradiction:
            return True
        pair = self._branch(known) if depth < DEEPEST else None
        if pair is None:
            return False
        a, b = pair
        for together in (True, False):
            child = known.copy()
            try:
                (child.merge if together else child.separate)(a, b)
            except Contradiction:
                continue
            if not self._refutes(limit, child, depth + 1):
                return False
        return True

    def _branch(self, known: Colocation) -> tuple[int, int] | None:
        """The longest cluster, and the longest other of which nothing is known beside it."""
        clusters = known.longest_first()
        for i, a in enumerate(clusters[: self.devices - 1]):
            for b in clusters[i + 1 :]:
                if not known.clusters.separate[a, b]:
                    return int(a), int(b)
        return None

    def propagate(self, limit: float, known: Colocation, anchors: int | None) -> None:
        """Draw conclusions until there are no more. Raises Contradiction, and Spent."""
        shape = self.shape
        while True:
            if shape.one_by_one:
                while self._look_around(limit, known, anchors):
                    pass
            if anchors is not None and known.changes < CHANGES and self._branch(known) is not None:
                return
            known.changes = 0
            times = ends(shape, known.clusters, self.window, known.head, known.tail)
            self.effort.spend(2.0 * times.visited)
            risen = float((times.head - known.head + times.tail - known.tail).sum())
            known.head, known.tail = times.head, times.tail
            self._test(limit, known)
            if risen <= RISE * limit or not shape.one_by_one:
                return

    def _test(self, limit: float, known: Colocation) -> None:
        shape = self.shape
        if (
            float((known.head + shape.least_s + known.tail).max()) > limit
            or float(known.clusters.held.max()) > self.cap
            or (shape.one_by_one and longest_span(known.clusters, known.head, shape.least_s, known.tail) > limit)
            or shared_span(known.head, self.priced, known.tail, THRESHOLDS) > limit
        ):
            raise Contradiction

    def _look_around(self, limit: float, known: Colocation, anchors: int | None) -> bool:
        """Whether something was learnt from what must be with each cluster."""
        shape, paths, clusters = self.shape, self.paths, known.clusters
        learnt = False
        for anchor in known.longest_first()[:anchors].tolist():
            if clusters.copyable[anchor]:
                continue  # merged into another meanwhile
            where = np.full(shape.groups, FREE, np.int64)
            base = known.head, known.tail[::-1].copy()
            rounds = around(limit, anchor, shape.arrays, clusters, self.cap, self.devices - 1, base, where, paths)
            self.effort.spend(4.0 * abs(rounds) * len(shape.arrays.forth.in_from))
            if rounds < 0:
                raise Contradiction
            np.maximum(known.head, paths.head.min(axis=1), out=known.head)
            np.maximum(known.tail, paths.tail[::-1].min(axis=1), out=known.tail)
            for other in np.flatnonzero(where != FREE).tolist():
                if other == anchor or clusters.copyable[other]:
                    continue
                if where[other] == WITH:
                    known.merge(anchor, other)
                    learnt = True
                elif not clusters.separate[anchor, other]:
                    known.separate(anchor, other)
                    learnt = True
            if self.devices == 2:  # all that is not with the anchor is on the one other device
                elsewhere = np.flatnonzero(clusters.separate[anchor]).tolist()
                for other in elsewhere[1:]:
                    known.merge(elsewhere[0], other)
                learnt |= len(elsewhere) > 1
        return learnt


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
    until they contradict each other; then every plan is longer than T. First without distinguishing cases, then
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
        """Rule out more by distinguishing cases."""
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

    def _tried(self, share: float, attempt: Callable[[Refuter], bool]) -> bool:
        """What an attempt gives with a share of the effort left, which it uses up."""
        effort = Effort(share * self.left, self.check)
        effort.spend(0.0)
        before = effort.arcs
        ruled_out = attempt(Refuter(self.shape, effort))
        self.left -= before - max(0.0, effort.arcs)
        return ruled_out

    def _conclude(self, limit: float) -> bool:
        """Whether ``limit`` is ruled out; else what was learnt is kept."""
        known = self.known[-1][1].copy()
        ruled_out = self._tried(ROOT_SHARE, lambda refuter: refuter.contradicts(limit, known))
        if not ruled_out:
            self.known.append((limit, known))
        return ruled_out

    def _refutes(self, limit: float, share: float) -> bool:
        start = next(known for up_to, known in reversed(self.known) if up_to >= limit)
        return self._tried(share, lambda refuter: refuter.refutes(limit, start))
