"""Search for a better draft, step by step: descents from the best so far, disturbed again and again."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.pipelines.descent.facts import Stages
from solvers.pipelines.descent.neighbours_kernel import Drafts, around
from solvers.pipelines.descent.space import Parts, Space, draft_of, parts_of
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


class Descent:
    """A search from one draft that is resumed as often as one likes.

    draft: over the super-operators of ``condensed.at(..., merge_trivial=False)``, as what is found. estimate: judges
    such drafts. check: called before each call, may raise to stop. space: keeps what was computed for other drafts
    of the same problem. The same rng state and numbers of evaluations give the same draft.
    """

    def __init__(
        self,
        space: Space,
        draft: Draft,
        estimate: Callable[[Draft], Estimated],
        check: Callable[[], None],
        rng: random.Random,
    ) -> None:
        self.space, self.estimate, self.check, self.rng = space, estimate, check, rng
        self.left = 0
        """Estimates that may be asked for still."""
        self.known: dict[Parts, tuple[Key, Estimated]] = {}
        self.start = self.best = parts_of(draft)
        self.home: Parts | None = None
        """What is disturbed next; None before the first descent."""
        self.bottoms: set[Parts] = set()
        self.fruitless = 0

    @property
    def draft(self) -> Draft:
        """The best found so far."""
        return draft_of(self.best)

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
            if self.home is None:
                self.key(self.best)
                self.home = self._descend(self.best)
                yield
            while not self.exhausted:
                left = self.left
                parts = self._descend(self._kicked(self.home, self.rng))
                self.fruitless = self.fruitless + 1 if self.left == left else 0
                if _better(self.key(parts), self._lenient(self.home, self.rng)):
                    self.home = parts
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
            estimate = self.estimate(draft_of(parts))
            over = estimate.over if math.isfinite(estimate.seconds) else math.inf
            self.known[parts] = (over, estimate.seconds), estimate
            if parts != self.best and _better(self.known[parts][0], self.key(self.best)):
                self.best = parts
        return self.known[parts][0]

    def _descend(self, parts: Parts) -> Parts:
        """To a draft none of whose neighbours is better, as far as they are tried."""
        while parts not in self.bottoms:
            for other in self._tried(parts):
                if _better(self.key(other), self.key(parts)):
                    parts = other
                    break
            else:
                self.bottoms.add(parts)
        return parts

    def _tried(self, parts: Parts) -> Iterator[Parts]:
        """Neighbours of a draft, the most promising first; those of its busiest stages before the others."""
        self.key(parts)
        order = self._busiest(parts)
        width = len(order) if len(order) <= FEW else 1
        left = AT_MOST
        for start in range(0, len(order), width):
            tried = 0
            for other in self._ranked(parts, order[start : start + width], first=start == 0):
                if tried >= min(IN_FOCUS, left) and len(order) > FEW:
                    break
                tried += other not in self.known
                yield other
            left -= tried

    def _ranked(self, parts: Parts, focus: Ints, *, first: bool) -> Iterator[Parts]:
        """Those that do not look worse than before. Drafts that seem to need less memory than now come first while it
        is too much; else those that need more come last."""
        self.check()
        over, seconds = self.key(parts)
        facts = self.space.near(parts.stages)
        now = self.space.first_look(parts).look
        drafts, looks = around(facts, parts.stages, focus, math.inf if over > 0 else seconds, False, first)
        over_bytes, rough_s = looks.T
        if over > 0:
            chosen = np.lexsort((rough_s, over_bytes))
        else:
            chosen = np.lexsort((rough_s, over_bytes > now.over_bytes))
            chosen = chosen[rough_s[chosen] <= now.rough_s * (1 + PROMISING)]
        return (_one_of(drafts, number) for number in chosen.tolist())

    def _busiest(self, parts: Parts) -> Ints:
        """The stages, those first that are over their memory, then those that are busiest."""
        estimate = self.known[parts][1]
        cap = self.space.facts.rules.caps[-1] if estimate.over else math.inf
        return np.lexsort((-np.asarray(estimate.busy_s), np.asarray(estimate.peak_bytes) <= cap))

    def _kicked(self, parts: Parts, rng: random.Random) -> Parts:
        """A draft some random steps away that does not look hopeless."""
        most_s = HOPELESS * self.space.first_look(parts).least_s
        leap = rng.random() < LEAPS
        for _ in range(rng.choice((1, 2, 2, 3))):
            self.check()
            stage = np.array([rng.randrange(len(parts))])
            drafts, looks = around(self.space.near(parts.stages), parts.stages, stage, most_s, leap, True)
            if len(looks):
                parts = _one_of(drafts, rng.randrange(len(looks)))
        return parts


def _one_of(drafts: Drafts, number: int) -> Parts:
    first, end = drafts.start[number : number + 2]
    return Parts(Stages(drafts.of[number], drafts.table[first:end]))


def _better(a: Key, b: Key) -> bool:
    return a[0] < b[0] or (a[0] == b[0] and a[1] < b[1] * (1 - LEAST_GAIN))
