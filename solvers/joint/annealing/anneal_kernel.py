"""Simulated annealing over placements of one pass of operators, each timed by the simulator in full."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.joint.passes.arrays_kernel import NONE, PassArrays, PassState
from solvers.joint.passes.memory_kernel import least_room_bytes, peak_bytes
from solvers.joint.passes.pass_kernel import run_pass
from solvers.joint.passes.ranks_kernel import tails_s
from solvers.kernels.arrays import Bools, Floats, Ints, Words
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.lazy import njit

PULL = 0.6
"""Share of moves that take one end of a cut edge to the other; the rest go anywhere."""
SWAP = 0.15
"""Share of moves that send something back in exchange, besides those into a full device."""
TRIES = 20
"""How often a random edge or partner that will not do is drawn again."""
REACH = 0.25
"""How far along the line an operator moves at most, as a share of it."""
SLACK = 1e-9
"""Relative excess over a cap that is rounding, as in `solvers.evaluation.evaluate`."""
PENALTY = 20.0
"""Makespans that all memory of the cluster in excess is worth."""

PATHS, RANKS, ORDER = range(3)
"""Who goes first: by the longest path to the end, by ranks that the search changes, or a fixed order per device,
in which a device may wait for what is worth it."""

COST, BEST, EXCESS, BEST_EXCESS, TEMPERATURE, COOLING = range(6)
"""Places in the figures of a `Walker`: cost of where it stands and of the best, each in seconds with what its
excess of memory adds; the excess itself as a share of all memory; seconds; factor per evaluation."""


class Level(NamedTuple):
    """Units that move as one. Rows are ``x[x_start[i] : x_start[i + 1]]``."""

    unit_of: Ints  # [groups]
    member_start: Ints  # [units + 1]
    member: Ints  # groups of every unit
    allowed: Bools  # [units, devices]
    held: Floats  # [units], bytes that each is expected to hold at the peak
    room: Floats  # [devices], bytes
    edge_low: Ints  # [edges], the unit at one end
    edge_high: Ints  # [edges], the unit at the other
    edge_until: Floats  # [edges], running sums of their seconds


class Walker(NamedTuple):
    """Where a search stands."""

    place: Ints  # [groups], the device of each
    unit_place: Ints  # [units], the device of each
    rank: Floats  # [operators]
    held: Floats  # [devices], bytes by `Level.held`
    best_place: Ints  # [groups]
    best_rank: Floats  # [operators]
    figures: Floats  # at COST and so on
    random: Words  # [1], the state of the generator
    tail: Floats  # [operators], s
    follow: Ints  # [operators], NONE everywhere, but with a fixed order
    nothing: Floats  # of no size
    line: Ints  # [operators], all in the order that fixes those of the devices
    best_line: Ints  # [operators]


@njit(cache=True)
def uniform(random: Words) -> float:
    """The next number in [0, 1) of the SplitMix64 generator (Steele et al. 2014)."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def below(random: Words, count: int) -> int:
    """A random number of 0 .. count - 1."""
    return min(count - 1, int(uniform(random) * count))


@njit(cache=True)
def excess_share(a: PassArrays, s: PassState) -> float:
    """Memory held beyond the caps at the peaks of the pass in ``s``, as a share of all memory; 0 if it fits."""
    if least_room_bytes(a, s) >= 0:
        return 0.0
    peak = peak_bytes(a, s)
    over, total = 0.0, 0.0
    for d in range(len(peak)):
        memory = a.held.memory_bytes[d]
        if peak[d] > memory * (1 + SLACK):
            over += peak[d] - memory
        if memory < np.inf:
            total += memory
    return over / total if over > 0 else 0.0


@njit(cache=True)
def _lined_up(a: PassArrays, w: Walker) -> None:
    """Write the sequence of every device that ``line`` gives into ``rank`` and ``follow``."""
    line, place, rank, follow, group_of = w.line, w.place, w.rank, w.follow, a.group_of
    last = np.full(len(w.held), NONE)
    count = np.zeros(len(w.held))
    for i in line:
        d = place[group_of[i]]
        rank[i] = count[d]
        count[d] += 1
        if last[d] != NONE:
            follow[last[d]] = i
        follow[i] = NONE
        last[d] = i


@njit(cache=True)
def timed(a: PassArrays, s: PassState, order: Ints, w: Walker, mode: int, limit: float) -> float:
    """Seconds of where the walker stands, inf beyond the limit."""
    place, rank, tail, follow, nothing = w.place, w.rank, w.tail, w.follow, w.nothing
    tails_s(a, order, nothing, nothing, place, True, tail)
    if mode == PATHS:
        for i in range(len(rank)):
            rank[i] = -tail[i]
    elif mode == ORDER:
        _lined_up(a, w)
    return run_pass(a, s, place, rank, follow, tail, limit)


@until_worth_it
@njit(cache=True)
def begin(a: PassArrays, s: PassState, order: Ints, level: Level, w: Walker, mode: int) -> None:
    """Fill in all that follows from ``place`` and, by ``mode``, ``rank`` or ``line``; the best becomes where it
    stands if that is better."""
    w.held[:] = 0.0
    for unit in range(len(w.unit_place)):
        w.unit_place[unit] = w.place[level.member[level.member_start[unit]]]
        w.held[w.unit_place[unit]] += level.held[unit]
    seconds = timed(a, s, order, w, mode, np.inf)
    w.figures[EXCESS] = excess_share(a, s) if seconds < np.inf else np.inf
    w.figures[COST] = seconds * (1 + PENALTY * w.figures[EXCESS]) if seconds < np.inf else np.inf
    _save_best(w)


@njit(cache=True)
def _save_best(w: Walker) -> None:
    figures = w.figures
    better = figures[EXCESS] < figures[BEST_EXCESS]
    if figures[EXCESS] == figures[BEST_EXCESS]:
        better = figures[COST] < figures[BEST]
    if better:
        figures[BEST], figures[BEST_EXCESS] = figures[COST], figures[EXCESS]
        w.best_place[:] = w.place
        w.best_rank[:] = w.rank
        w.best_line[:] = w.line


@njit(cache=True)
def _put(level: Level, w: Walker, unit: int, device: int) -> None:
    w.held[w.unit_place[unit]] -= level.held[unit]
    w.held[device] += level.held[unit]
    w.unit_place[unit] = device
    for e in range(level.member_start[unit], level.member_start[unit + 1]):
        w.place[level.member[e]] = device


@njit(cache=True)
def _cut_edge(level: Level, w: Walker) -> int:
    """A random edge whose ends are on two devices, heavy ones more often; NONE if none was found."""
    edges = len(level.edge_until)
    if edges == 0:
        return NONE
    for _ in range(TRIES):
        e = int(np.searchsorted(level.edge_until, uniform(w.random) * level.edge_until[edges - 1]))
        if w.unit_place[level.edge_low[e]] != w.unit_place[level.edge_high[e]]:
            return e
    return NONE


@njit(cache=True)
def _partner(level: Level, w: Walker, unit: int, target: int) -> int:
    """A random unit of the target device that may and has room to go where ``unit`` is; NONE if none was found."""
    source = w.unit_place[unit]
    for _ in range(TRIES):
        other = below(w.random, len(w.unit_place))
        if w.unit_place[other] != target or not level.allowed[other, source]:
            continue
        change = level.held[unit] - level.held[other]
        if w.held[target] + change <= max(level.room[target], w.held[target]):
            return other
    return NONE


@njit(cache=True)
def _drawn(level: Level, w: Walker) -> tuple[int, int]:
    """(unit, device to go to) of a random move, a unit NONE if it leads nowhere."""
    unit, target = NONE, NONE
    if uniform(w.random) < PULL:
        e = _cut_edge(level, w)
        if e != NONE:
            unit, towards = level.edge_low[e], level.edge_high[e]
            if uniform(w.random) < 0.5:
                unit, towards = towards, unit
            target = w.unit_place[towards]
    if unit == NONE:
        unit = below(w.random, len(w.unit_place))
        target = below(w.random, len(w.held))
    if target == w.unit_place[unit] or not level.allowed[unit, target]:
        return NONE, NONE
    return unit, target


@njit(cache=True)
def _turn(line: Ints, start: int, stop: int) -> None:
    """Take what is at ``start`` to ``stop``; what lies between moves up."""
    moved = line[start]
    step = 1 if stop > start else -1
    for k in range(start, stop, step):
        line[k] = line[k + step]
    line[stop] = moved


@njit(cache=True)
def _reordered(a: PassArrays, s: PassState, order: Ints, w: Walker, mode: int, limit: float) -> None:
    """Change the rank of an operator, or its place in the line, and keep that if it costs at most ``limit``."""
    i = below(w.random, len(w.rank))
    if mode == RANKS:
        before = w.rank[i]
        w.rank[i] += (uniform(w.random) - 0.5) * 0.1 * w.figures[COST]
        if not _accepted(a, s, order, w, mode, limit):
            w.rank[i] = before
        return
    far = 1 + int(uniform(w.random) ** 3 * REACH * len(w.line))
    to = min(len(w.line) - 1, max(0, i + far if uniform(w.random) < 0.5 else i - far))
    if to == i:
        return
    _turn(w.line, i, to)
    if not _accepted(a, s, order, w, mode, limit):
        _turn(w.line, to, i)


@njit(cache=True)
def anneal(a: PassArrays, s: PassState, order: Ints, level: Level, w: Walker, mode: int, evaluations: int) -> None:
    """Try so many moves; what is left in ``w`` goes on with the next call as if it were one.

    A move takes a unit to another device, mostly along an edge that is cut, or swaps two; unless priorities
    follow the placement, more moves change them.
    """
    figures, random, unit_place = w.figures, w.random, w.unit_place
    reorders = 0.0
    if mode == RANKS:
        reorders = 0.85
    elif mode == ORDER:
        reorders = 0.65
    for _ in range(evaluations):
        figures[TEMPERATURE] *= figures[COOLING]
        limit = figures[COST] - figures[TEMPERATURE] * np.log(1.0 - uniform(random))
        if mode != PATHS and uniform(random) < reorders:
            _reordered(a, s, order, w, mode, limit)
            continue
        unit, target = _drawn(level, w)
        if unit == NONE:
            continue
        other = NONE
        source = unit_place[unit]
        full = w.held[target] + level.held[unit] > level.room[target]
        if full or uniform(random) < SWAP:
            other = _partner(level, w, unit, target)
            if other == NONE and full:
                continue
        _put(level, w, unit, target)
        if other != NONE:
            _put(level, w, other, source)
        if not _accepted(a, s, order, w, mode, limit):
            _put(level, w, unit, source)
            if other != NONE:
                _put(level, w, other, target)


@njit(cache=True)
def _accepted(a: PassArrays, s: PassState, order: Ints, w: Walker, mode: int, limit: float) -> bool:
    """Time where the walker stands now and stay there if its cost is at most ``limit``."""
    seconds = timed(a, s, order, w, mode, limit)
    if not seconds <= limit or seconds == np.inf:
        return False
    excess = excess_share(a, s)
    cost = seconds * (1 + PENALTY * excess)
    if excess > 0 and (w.figures[EXCESS] == 0 or cost > limit):
        return False
    w.figures[COST], w.figures[EXCESS] = cost, excess
    _save_best(w)
    return True
