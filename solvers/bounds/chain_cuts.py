"""Where a chain of devices may be cut, and what is known of who works before a cut and beyond it.

A cut's *position* is the work of the groups before it, a downset. See `solvers.bounds.chain` for what it proves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats, Ints

MOST_CUTS = 500
"""Stretches of positions that are distinguished."""
ROUNDING = 1e-9
"""Of all work: positions that differ by less are one."""
IN, OUT = range(2)


class Groups(NamedTuple):
    """Groups of operators that share a device."""

    work_s: Floats
    """[groups] of all micro-batches, without updates"""
    in_s: Floats
    """[groups] until whatever of it is first on its device can begin, transfers to that device included"""
    out_s: Floats
    """[groups] from the end of whatever of it is last on its device"""
    run_s: Floats
    """[groups, 2] one micro-batch's forward, and backward"""
    first_run_s: Floats
    """[groups, 2] what of these runs, on devices before its own, before the first of it begins and after the last of it
    ends; 0 where that is not known"""
    hop_s: Floats
    """[groups, 2] the shortest transfer in, and out"""
    backward_s: Floats
    """[groups] of the work, the backwards"""
    turn_s: Floats
    """[groups, 2] until whatever backward of it is first on its device can begin, and from the end of the last; inf
    where it has none"""


class Cuts(NamedTuple):
    """Stretches of positions at which a cut may be, ascending, [stretches] unless stated otherwise. The first is that
    of no cut, before all; the last the end of all."""

    enter_s: Floats
    leave_s: Floats
    ways_s: Floats
    """of whoever works beyond it: head and tail at least"""
    more_s: Floats
    """[stretches, stretches] by how much these are longer than those of the cut before"""
    turn_s: Floats
    """[stretches, stretches] of whoever works between two cuts: the way to its first backward and that from its last at
    least; -inf where it has none"""


def _sums(values: Floats) -> Floats:
    """Of the first so many, [values + 1, ...]."""
    return np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])


def cuts_of(groups: Groups, earliest_end: Floats, latest_start: Floats) -> Cuts:
    """earliest_end, latest_start: positions of the cuts between which a group surely is on one device, [groups]."""
    whole = float(groups.work_s.sum())
    by_start = np.argsort(latest_start, kind="stable")
    by_end = np.argsort(earliest_end, kind="stable")
    enter, leave, at = _positions(earliest_end, latest_start, latest_start[by_start], whole)
    enter, leave = np.array([0.0, *enter, whole]), np.array([0.0, *leave, whole])
    maybe = np.searchsorted(earliest_end[by_end], leave + 2 * whole * ROUNDING, side="right")
    maybe[0] = 0
    surely = np.array([0, *at, len(by_start)], np.int64)  # how many groups, by latest start, are before in any case

    def beyond(values: Floats) -> Floats:
        """The least of whoever may be beyond, [stretches, ...]; inf where nobody is."""
        least = np.minimum.accumulate(values[by_start][::-1], axis=0)[::-1]
        return np.concatenate([least, np.full((1, *least.shape[1:]), np.inf)])[surely]

    most_run = _sums(groups.run_s[by_end])[maybe][:, None, :]  # that may be before each stretch
    more = _excess(beyond(groups.first_run_s)[None], beyond(groups.first_run_s + groups.hop_s)[None], most_run)
    ways = beyond(groups.in_s) + beyond(groups.out_s)
    ways[[0, -1]] = 0.0
    first_s = np.minimum.accumulate(np.append(np.inf, groups.turn_s[by_end, IN]))[maybe]
    turn = beyond(groups.turn_s[:, OUT])[:, None] + first_s[None, :]
    return Cuts(enter, leave, ways, more.sum(axis=2), np.where(np.isfinite(turn), turn, -np.inf))


def _excess(least: Floats, with_hop: Floats, known: Floats) -> Floats:
    """How much longer so many seconds, with a transfer, are than what may be elsewhere; 0 where that may be all
    of it, and where nobody is."""
    surely = (least > known * (1 + ROUNDING)) & np.isfinite(with_hop)
    return np.where(surely, np.where(np.isfinite(with_hop), with_hop, 0.0) - known, 0.0)


def _positions(earliest_end: Floats, latest_start: Floats, starts: Floats, whole: float) -> tuple[Floats, Floats, Ints]:
    """Of stretches of positions that are inside of no operator and beyond which the same groups may be: where each
    begins and ends, and how many groups, by latest start, begin before it. starts: the latest starts, ascending."""
    spare = whole * ROUNDING
    stretches: list[tuple[float, float, int]] = []
    for begin, end in _outside(earliest_end, latest_start, whole):
        first, last = np.searchsorted(starts, [begin, end], side="left").tolist()
        marks = [begin, *starts[first:last].tolist(), end]
        for i in range(len(marks) - 1):
            if i == 0 or marks[i + 1] - marks[i] > 2 * spare:
                stretches.append((marks[i], marks[i + 1], first + i))
            else:
                stretches[-1] = (stretches[-1][0], marks[i + 1], stretches[-1][2])
    firsts = np.unique(np.linspace(0, len(stretches), MOST_CUTS, endpoint=False).astype(np.int64))
    lasts = np.append(firsts[1:], len(stretches)) - 1
    enter, leave, at = (np.array(column) for column in zip(*stretches, strict=True))
    return enter[firsts], leave[lasts], at[firsts]


def _outside(earliest_end: Floats, latest_start: Floats, whole: float) -> list[tuple[float, float]]:
    """Positions that are inside of no operator, ascending."""
    spare = whole * ROUNDING
    inside = np.flatnonzero(latest_start + 2 * spare < earliest_end)
    inside = inside[np.argsort(latest_start[inside], kind="stable")]
    stretches, at = [], -spare
    for begin, end in zip(
        (latest_start[inside] + spare).tolist(), (earliest_end[inside] - spare).tolist(), strict=True
    ):
        if begin >= at:
            stretches.append((at, begin))
        at = max(at, end)
    return [*stretches, (at, max(at, whole + spare))]
