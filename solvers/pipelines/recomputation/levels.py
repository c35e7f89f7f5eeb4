"""The front of (seconds, bytes) of every stage: what runs again at a few prices of memory.

At a price, in seconds a byte, every operator of the graph keeps what it saves, or runs again, as is cheaper. What of
that is in a stage is a point on the lower hull of its front, or close to it (Everett, "Generalized Lagrange multiplier
method", 1963): so a few prices give fronts of all stages that there may be. `fitted` then finds the least that a stage
of a plan has to run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from solvers.pipelines.recomputation.choices import Choices, Span, choices_in
from solvers.plan.drafts import FIRST_LEVEL, NOTHING, WHOLE, Draft
from solvers.plan.plan import Region, Stage, regions_among
from solvers.plan.regions import rerunning
from solvers.problem.problem import Problem

PRICES = 12
"""That are tried; those at which the same runs again are one."""
SHARES = (0.25, 0.5, 0.75)
"""Of the regions of a level that are taken between it and the one before, where that is far."""
FAR, NEAR = 0.15, 0.02
"""Of all that is saved: by so much levels differ that have others between them, and at least all."""


@dataclass(frozen=True)
class Level:
    """regions: all that run again. problem: in which they do."""

    regions: tuple[Region, ...]
    problem: Problem
    _region_of: dict[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_region_of", {o: n for n, one in enumerate(self.regions) for o in one.operators})

    def saved_bytes(self, samples: float) -> float:
        """What a micro-batch keeps of the whole graph."""
        return sum(operator.saved_bytes.at(samples) for operator in self.problem.graph.operators)

    def seconds(self, kinds: Sequence[str], samples: float) -> float:
        """What a micro-batch takes on one device of the slowest of these kinds."""
        return max(float(self.problem.compute.at(kind, samples).sum()) for kind in kinds)

    def all_bytes(self, samples: float) -> float:
        """The same where nothing runs again."""
        return sum(operator.saved_bytes.at(samples) for operator in self.problem.as_traced.graph.operators)

    def within(self, operators: Iterable[int]) -> tuple[Region, ...]:
        """What of the regions is among ``operators``, where anything of it runs again."""
        members = frozenset(operators)
        touched = dict.fromkeys(self._region_of[o] for o in sorted(members) if o in self._region_of)
        return regions_among((self.regions[number] for number in touched), members)


def choices_allowed(problem: Problem) -> tuple[int, ...]:
    """What stages may run again, the least first: numbers as drafts have them."""
    if not problem.has_backward():
        return (NOTHING,)
    levels = range(FIRST_LEVEL, FIRST_LEVEL + len(levels_of(problem)))
    return (NOTHING, *levels, *((WHOLE,) if problem.recompute else ()))


def levels_of(problem: Problem) -> tuple[Level, ...]:
    """Those of a problem that leaves to its plans what runs again, the least first; () otherwise."""
    return _levels(problem) if problem.recompute_operators else ()


@lru_cache(8)
def _levels(problem: Problem) -> tuple[Level, ...]:
    counts = problem.micro_batch_choices()
    samples = problem.mini_batch // counts[len(counts) // 2]
    kinds = sorted({problem.cluster.devices[d].kind for d in problem.cluster.accelerators})
    choices = choices_in(problem, range(len(problem.graph)), samples, kinds)
    chosen = dict.fromkeys(_at(choices, price) for price in _prices(choices))
    pure = _distinct([Level(regions, rerunning(problem, regions)) for regions in chosen if regions], samples, kinds)
    mixed = [
        Level(regions, rerunning(problem, regions))
        for less, more in pairwise([Level((), problem), *pure])
        for share in SHARES
        if less.saved_bytes(samples) - more.saved_bytes(samples) > FAR * pure[0].all_bytes(samples)
        if (regions := _between(less.regions, more.regions, share))
    ]
    return tuple(_distinct([*pure, *mixed], samples, kinds))


def _distinct(levels: list[Level], samples: float, kinds: Sequence[str]) -> list[Level]:
    """Those that run again the least first, without such as save hardly less than the one before."""
    distinct: list[Level] = []
    for level in sorted(levels, key=lambda one: (one.seconds(kinds, samples), one.saved_bytes(samples))):
        least = distinct[-1].saved_bytes(samples) if distinct else level.all_bytes(samples)
        if least - level.saved_bytes(samples) > NEAR * level.all_bytes(samples):
            distinct.append(level)
    return distinct


def _between(less: Sequence[Region], more: Sequence[Region], share: float) -> tuple[Region, ...]:
    """Of the regions of a level about this share, evenly spread, and of those of another what they leave."""
    taken = [region for number, region in enumerate(more) if _spread(number) < share]
    inside = {o for region in taken for o in region.operators}
    left = [region for region in less if inside.isdisjoint(region.operators)]
    return tuple(sorted((*taken, *left)))


def _spread(number: int) -> float:
    """Van der Corput's sequence: of as many numbers as there are in a row about the share s is less than s."""
    value, half = 0.0, 0.5
    while number:
        value, number, half = value + half * (number % 2), number // 2, half / 2
    return value


def _prices(choices: Choices) -> list[float]:
    """Seconds for a byte: from that of the operators that are cheapest to run again to that of the dearest."""
    made = np.zeros(len(choices.operators))
    for crossing in choices.crossings:
        if crossing.producer >= 0:
            made[crossing.producer] += crossing.nbytes
    useful = (made > 0) & (choices.seconds > 0)
    if not useful.any():
        return []
    each = choices.seconds[useful] / made[useful]
    return [float(price) for price in np.geomspace(each.min(), each.max() * 2, PRICES)]


def _at(choices: Choices, price: float) -> tuple[Region, ...]:
    """What runs again where a byte is worth ``price`` seconds: segments joined to regions so that least is paid."""
    segment = np.array(choices.segment, np.int64)
    count = int(segment[-1]) + 1 if len(segment) else 0
    saved = np.bincount(segment, choices.saved_bytes, count) if count else np.zeros(0)
    best, before = np.zeros(count + 1), [(-1, ())] * (count + 1)
    best[1:] = np.inf
    tried: dict[int, list[tuple[int, float, tuple[Region, ...]]]] = {}
    for span in choices.spans:
        cost, region = _as_region(choices, span, price)
        if region is not None:
            tried.setdefault(span.first, []).append((span.last + 1, cost, (region,)))
    for first in range(count):
        unchanged = (first + 1, price * float(saved[first]), ())
        for end, cost, regions in (unchanged, *tried.get(first, ())):
            if best[first] + cost < best[end] * (1 - 1e-12):
                best[end], before[end] = best[first] + cost, (first, regions)
    chosen: list[Region] = []
    at = count
    while at > 0:
        at, regions = before[at]
        chosen += regions
    return tuple(reversed(chosen))


def _as_region(choices: Choices, span: Span, price: float) -> tuple[float, Region | None]:
    """What a region costs in which every operator runs again or keeps what it makes, as is cheaper; None if all
    keep."""
    inside = choices.inside(span)
    made = dict.fromkeys(inside, 0.0)
    touched = [choices.crossings[number] for number in choices.touching(span)]
    for crossing in touched:
        if crossing.producer in made:
            made[crossing.producer] += crossing.nbytes
    cached = {at for at in inside if choices.seconds[at] > price * made[at]}
    if len(cached) == len(inside):
        return 0.0, None
    saved_bytes = 0.0
    for crossing in touched:
        here = [reader for reader in crossing.readers if reader in made]
        if crossing.producer not in made:
            is_saved = bool(here)
        elif crossing.producer in cached:
            is_saved = True
        else:
            leaves = crossing.outside or len(here) < len(crossing.readers)
            is_saved = leaves and any(choices.saved_bytes[o] >= crossing.nbytes for o in (crossing.producer, *here))
        saved_bytes += crossing.nbytes * is_saved
    seconds = float(sum(choices.seconds[at] for at in inside if at not in cached))
    operators = (tuple(choices.operators[at] for at in some) for some in (inside, sorted(cached)))
    return seconds + price * saved_bytes, Region(*operators)


def stated(problem: Problem, draft: Draft) -> Draft:
    """The draft in which stages state the regions of their levels, as plans do."""
    levels = levels_of(problem)
    stages = (
        replace(stage, recompute=NOTHING, regions=levels[stage.recompute - FIRST_LEVEL].within(stage.operators))
        if stage.recompute >= FIRST_LEVEL
        else stage
        for stage in draft.stages
    )
    return Draft(tuple(stages)) if levels else draft


def again_of(problem: Problem, stage: Stage) -> int:
    """What a stage runs again, as drafts number it; of levels the one most like it."""
    levels = levels_of(problem) if stage.regions else ()
    if not levels:
        return WHOLE if stage.recompute else NOTHING
    own = set(stage.again)

    def unlike(number: int) -> int:
        within = levels[number].within(stage.operators)
        return len(own.symmetric_difference(o for one in within for o in set(one.operators) - set(one.cached)))

    return FIRST_LEVEL + min(range(len(levels)), key=unlike)
