"""Simulated annealing over placements, judged by their latency."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit
from solvers.latency.latency_kernel import Calls, Scratch, cut_into_pieces, latency

LONGEST_RUN = 16
"""Most units that one move takes along."""


class Units(NamedTuple):
    """What moves as a whole: co-location groups, or blocks of them.

    of: [operators] unit. start, member: CSR of the units' operators. nbytes: [units]. allowed:
    [units, places]. caps: [places]. after, before: CSR of neighbouring operators of every operator.
    """

    of: Ints
    start: Ints
    member: Ints
    nbytes: Floats
    allowed: Bools
    caps: Floats
    after_start: Ints
    after: Ints
    before_start: Ints
    before: Ints


class Walker(NamedTuple):
    """Where the search stands. unit_place: [units], place, call: [operators], held: [places] bytes;
    best_place: [units]. figures: [latency now, least latency, temperature]. chosen, old, mark: [units]
    and stamp: [1] are scratch."""

    unit_place: Ints
    place: Ints
    call: Ints
    held: Floats
    best_place: Ints
    figures: Floats
    chosen: Ints
    old: Ints
    mark: Ints
    stamp: Ints


@njit(cache=True)
def begin(at: Calls, units: Units, walker: Walker, pieces: int, work: Scratch) -> None:
    """Fill in all that follows from ``walker.unit_place``; latency inf if it cannot run."""
    unit_place, place, _, held, best_place, figures = walker[:6]
    held[:] = 0.0
    for unit in range(len(unit_place)):
        held[unit_place[unit]] += units.nbytes[unit]
        best_place[unit] = unit_place[unit]
        for m in range(units.start[unit], units.start[unit + 1]):
            place[units.member[m]] = unit_place[unit]
    figures[0] = _value(at, units, walker, pieces, work)
    figures[1] = figures[0]


@njit(cache=True)
def _value(at: Calls, units: Units, walker: Walker, pieces: int, work: Scratch) -> float:
    """The latency of where the walker stands; inf if that cannot run or does not fit."""
    for place in range(len(units.caps)):
        if walker.held[place] > units.caps[place]:
            return np.inf
    if not cut_into_pieces(at, walker.place, pieces, walker.call, work):
        return np.inf
    return latency(at, walker.call, pieces, work)


@njit(cache=True)
def _choose(units: Units, walker: Walker, here: int, longest: int) -> int:
    """Gather a unit and up to ``longest`` - 1 more of its place, along tensors one way; their number."""
    unit_place, _, _, _, _, _, chosen, _, mark, stamp = walker
    stamp[0] += 1
    mark[here] = stamp[0]
    chosen[0] = here
    count, head = 1, 0
    forward = np.random.random() < 0.5
    start, near = (units.after_start, units.after) if forward else (units.before_start, units.before)
    while count < longest and head < count:
        unit = chosen[head]
        head += 1
        for m in range(units.start[unit], units.start[unit + 1]):
            v = units.member[m]
            for e in range(start[v], start[v + 1]):
                other = units.of[near[e]]
                if count < longest and mark[other] != stamp[0] and unit_place[other] == unit_place[here]:
                    mark[other] = stamp[0]
                    chosen[count] = other
                    count += 1
    return count


@njit(cache=True)
def _target(units: Units, walker: Walker, unit: int, places: int) -> int:
    """A place for a unit: mostly that of a neighbour, else any."""
    if np.random.random() < 0.75:
        v = units.member[np.random.randint(units.start[unit], units.start[unit + 1])]
        after = units.after_start[v + 1] - units.after_start[v]
        before = units.before_start[v + 1] - units.before_start[v]
        if after + before > 0:
            e = np.random.randint(after + before)
            if e < after:
                return int(walker.place[units.after[units.after_start[v] + e]])
            return int(walker.place[units.before[units.before_start[v] + e - after]])
    return int(np.random.randint(places))


@njit(cache=True)
def _shift(units: Units, walker: Walker, unit: int, target: int) -> None:
    unit_place, place, _, held = walker[:4]
    held[unit_place[unit]] -= units.nbytes[unit]
    held[target] += units.nbytes[unit]
    unit_place[unit] = target
    for m in range(units.start[unit], units.start[unit + 1]):
        place[units.member[m]] = target


@njit(cache=True)
def anneal(
    at: Calls, units: Units, walker: Walker, pieces: int, moves: int, cooling: float, seed: int, work: Scratch
) -> None:
    """Try ``moves`` moves, the temperature figures[2] (seconds) times ``cooling`` after each.

    A move takes one unit, or a run of units of one place along tensors, to the place of a neighbour
    or any other that has room and may have it. What cannot run with ``pieces`` pieces an accelerator
    is turned down, unless the walker stands on such a placement itself.
    """
    unit_place, _, _, held, best_place, figures, chosen, old, _, _ = walker
    np.random.seed(seed)
    places = len(units.caps)
    for _ in range(moves):
        figures[2] *= cooling
        unit = np.random.randint(len(unit_place))
        target = _target(units, walker, unit, places)
        longest = 1 if np.random.random() < 0.5 else 1 + int(np.random.random() ** 2 * LONGEST_RUN)
        if target == unit_place[unit]:
            if longest == 1:
                continue
            target = np.random.randint(places)
            if target == unit_place[unit]:
                continue
        count = _choose(units, walker, unit, longest) if longest > 1 else 1
        chosen[0] = unit
        nbytes, fits = 0.0, True
        for i in range(count):
            nbytes += units.nbytes[chosen[i]]
            fits = fits and units.allowed[chosen[i], target]
        if not fits or held[target] + nbytes > units.caps[target]:
            continue
        for i in range(count):
            old[i] = unit_place[chosen[i]]
            _shift(units, walker, chosen[i], target)
        value = _value(at, units, walker, pieces, work)
        if value <= figures[0] or np.random.random() < np.exp((figures[0] - value) / figures[2]):
            figures[0] = value
            if value < figures[1] * (1 - 1e-12):
                figures[1] = value
                best_place[:] = unit_place
        else:
            for i in range(count):
                _shift(units, walker, chosen[i], old[i])
