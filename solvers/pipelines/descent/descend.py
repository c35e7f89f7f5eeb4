"""Search for a better draft, step by step: descents from the best so far, disturbed again and again."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from solvers.coarsening.coarsen import Condensed
from solvers.kernels.arrays import Floats
from solvers.pipelines.descent.moves import always, around, leaps, steps
from solvers.pipelines.descent.rough import Look
from solvers.pipelines.descent.space import Space
from solvers.pipelines.descent.stage_graph import Parts, parts_of, tidy
from solvers.plan.drafts import Draft

LEAST_GAIN = 1e-7
"""A relative gain below this is rounding."""
FEW = 6
"""Of so few stages each is tried, however little it is busy."""
PROMISING = 0.05
"""How much worse than before, relatively, a draft may look that is worth an estimate."""
IN_FOCUS = 40
"""Estimates given to the neighbours of a draft that change its busiest stages, before those of others."""
AT_MOST = 160
"""Estimates given to the neighbours of one draft."""
HOPELESS = 1.25
"""A disturbance leaves the busiest device at most so much busier, relatively."""
LENIENCE = 0.02
"""How much worse a draft, relatively, may be than the one it came from by a disturbance and a descent."""
RETURNS = 0.1
"""How often a fruitless disturbance leads back to the best draft."""
LEAPS = 0.5
"""How often a disturbance makes stages more or fewer rather than taking any step."""
KICKS = 25
"""Disturbances in a row that lead nowhere new before the search gives up."""

Key = tuple[float, float]
"""What drafts are compared by: bytes over the memory caps (inf if a draft cannot run), then seconds."""


class Estimated(Protocol):
    """What is known of a draft: see `solvers.pipelines.timing.estimate`."""

    @property
    def seconds(self) -> float: ...
    @property
    def over(self) -> float: ...
    @property
    def busy_s(self) -> Sequence[float] | Floats: ...
    @property
    def peak_bytes(self) -> Sequence[float] | Floats: ...


class _Spent(Exception):
    """All estimates are used."""


def improve(
    condensed: Condensed,
    draft: Draft,
    estimate: Callable[[Draft], Estimated],
    check: Callable[[], None],
    rng: random.Random,
    *,
    evaluations: int,
    space: Space | None = None,
    gains: Counter[str] | None = None,
) -> Draft:
    """The best draft found, never a worse one than ``draft``: by bytes over the memory caps, then by seconds.

    evaluations: calls of ``estimate`` at most. The rest is as in `Descent`.
    """
    descent = Descent(space or Space(condensed), draft, estimate, check, rng, gains)
    for _ in descent.run(evaluations):
        pass
    return descent.draft


class Descent:
    """A search from one draft that is resumed as often as one likes.

    draft: over the super-operators of ``condensed.at(..., merge_trivial=False)``, as what is found. estimate: judges
    such drafts. check: called before each call, may raise to stop. space: keeps what was computed for other drafts
    of the same problem. gains: counts, by kind of step, the logarithms of what was gained (in millionths). The same
    rng state and numbers of evaluations give the same draft.
    """

    def __init__(
        self,
        space: Space,
        draft: Draft,
        estimate: Callable[[Draft], Estimated],
        check: Callable[[], None],
        rng: random.Random,
        gains: Counter[str] | None = None,
    ) -> None:
        self.space, self.estimate, self.check, self.rng, self.gains = space, estimate, check, rng, gains
        self.left = 0
        """Estimates that may be asked for still."""
        self.known: dict[Parts, tuple[Key, Estimated]] = {}
        self.start = self.best = parts_of(draft)
        self.home: Parts = ()
        """What is disturbed next; () before the first descent."""
        self.bottoms: set[Parts] = set()
        self.fruitless = 0

    @property
    def draft(self) -> Draft:
        """The best found so far."""
        return self.space.graph.draft(self.best)

    @property
    def worth(self) -> Key:
        """What the best found so far is compared by."""
        return self.known[self.best][0] if self.best in self.known else (math.inf, math.inf)

    @property
    def exhausted(self) -> bool:
        """Whether the last disturbances led nowhere new."""
        return self.fruitless >= KICKS

    def run(self, evaluations: int) -> Iterator[None]:
        """Go on, with so many estimates more at most; yields after the first descent and after every disturbance."""
        self.left = evaluations
        self.space.begin_at(self.start)
        try:
            if not self.home:
                self.key(self.best)
                self.home = self._descend(self.best)
                yield
            while not self.exhausted:
                left = self.left
                found = self._descend(self._kicked(self.home, self.rng))
                self.fruitless = self.fruitless + 1 if self.left == left else 0
                if _better(self.key(found), self._lenient(self.home, self.rng)):
                    self.home = found
                elif self.rng.random() < RETURNS:
                    self.home = self.best
                yield
        except _Spent:
            return

    def _lenient(self, parts: Parts, rng: random.Random) -> Key:
        """What a draft must beat to be disturbed in place of this one: a little worse will do."""
        over, seconds = self.key(parts)
        return over, seconds * (1 + LENIENCE * rng.random() ** 2 + 2 * LEAST_GAIN)

    def key(self, parts: Parts) -> Key:
        """What a draft is compared by; estimates it if that was not done before."""
        if parts not in self.known:
            if self.left <= 0:
                raise _Spent
            self.check()
            self.left -= 1
            told = self.estimate(self.space.graph.draft(parts))
            over = told.over if math.isfinite(told.seconds) else math.inf
            self.known[parts] = (over, told.seconds), told
            if parts != self.best and _better(self.known[parts][0], self.key(self.best)):
                self.best = parts
        return self.known[parts][0]

    def _descend(self, parts: Parts) -> Parts:
        """To a draft none of whose neighbours is better, as far as they are tried."""
        while parts not in self.bottoms:
            for kind, other in self._tried(parts):
                if _better(self.key(other), self.key(parts)):
                    self._note(kind, self.key(parts), self.key(other))
                    parts = other
                    break
            else:
                self.bottoms.add(parts)
        return parts

    def _tried(self, parts: Parts) -> Iterator[tuple[str, Parts]]:
        """Neighbours of a draft, the most promising first; those of its busiest stages before the others."""
        self.key(parts)
        order = self._busiest(parts)
        width = len(order) if len(order) <= FEW else 1
        left = AT_MOST
        for start in range(0, len(order), width):
            tried = 0
            for kind, other in self._ranked(parts, order[start : start + width], first=start == 0):
                if tried >= min(IN_FOCUS, left) and len(order) > FEW:
                    break
                tried += other not in self.known
                yield kind, other
            left -= tried

    def _ranked(self, parts: Parts, focus: Sequence[int], *, first: bool) -> Iterable[tuple[str, Parts]]:
        over, seconds = self.key(parts)
        now = self.space.rough.look(parts)
        rough = self.space.rough
        may_help = (lambda other: rough.least_s(other) < seconds) if over == 0 else always
        found = []
        for number, (kind, other) in enumerate(around(self.space, parts, focus, may_help, all_alike=first)):
            self.check()
            look = rough.look(other)
            if over > 0 or look.rough_s <= now.rough_s * (1 + PROMISING):
                found.append((_rank(look, now, over > 0), number, kind, other))
        found.sort()
        return [(kind, other) for _, _, kind, other in found]

    def _busiest(self, parts: Parts) -> list[int]:
        """The stages, those first that are over their memory, then those that are busiest."""
        told = self.known[parts][1]
        cap = self.space.rough.cap_bytes if told.over else float("inf")
        return sorted(range(len(parts)), key=lambda i: (told.peak_bytes[i] <= cap, -told.busy_s[i], i))

    def _kicked(self, parts: Parts, rng: random.Random) -> Parts:
        """A draft some random steps away that does not look hopeless."""
        least = self.space.rough.least_s(parts)
        leap = rng.random() < LEAPS
        for _ in range(rng.choice((1, 2, 2, 3))):
            stage = rng.randrange(len(parts))
            near = list(leaps(self.space, parts, stage) if leap else steps(self.space, parts, [stage]))
            rng.shuffle(near)
            for _, changed in near:
                other = tidy(changed)
                if other != parts and self.space.rough.least_s(other) <= HOPELESS * least and self.space.allows(other):
                    parts = self.space.levelled(other)
                    break
        return parts

    def _note(self, kind: str, before: Key, after: Key) -> None:
        if self.gains is not None and before[0] == 0 and before[1] > 0:
            self.gains[kind] += round(1e6 * (1 - after[1] / before[1]))


def _rank(look: Look, now: Look, repairs: bool) -> tuple[float, float]:
    """Drafts that seem to need less memory than now first while it is too much; else those that need more last."""
    return (look.over_bytes if repairs else float(look.over_bytes > now.over_bytes)), look.rough_s


def _better(a: Key, b: Key) -> bool:
    return a[0] < b[0] or (a[0] == b[0] and a[1] < b[1] * (1 - LEAST_GAIN))
