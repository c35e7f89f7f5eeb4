"""From what is held to curves over time, and whether a schedule tells the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.plan.schedule import MemoryCurve, Schedule
from solvers.verify.arrays.alike import INSTANT, SLACK
from solvers.verify.arrays.ragged import sums


class Holds(NamedTuple):
    """Bytes held on a device, from ``since`` until ``until``: columns."""

    device: Ints
    since_s: Floats
    until_s: Floats
    nbytes: Floats


class _Curve(NamedTuple):
    """Bytes held from each time on, and the most held at any instant."""

    times_s: Floats
    nbytes: Floats
    peak_bytes: float


def curve_findings(
    holds: list[Holds], devices: Sequence[int], static: Floats, schedule: Schedule
) -> tuple[list[str], dict[int, float]]:
    """Where the schedule's curves of ``devices`` differ from what is held; and the peak of each, in B. static: of all,
    [devices]."""
    empty = Holds(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0))
    every = Holds._make(np.concatenate(columns) for columns in zip(empty, *holds, strict=True))
    every = Holds._make(column[every.nbytes > 0] for column in every)
    order = np.argsort(every.device, kind="stable")
    cuts = np.searchsorted(every.device[order], np.arange(len(static) + 1))
    found, peaks = [], {}
    for device in devices:
        mine = Holds._make(column[order[cuts[device] : cuts[device + 1]]] for column in every)
        counted = _curve(float(static[device]), mine)
        peaks[device] = counted.peak_bytes
        found += _compare(device, float(static[device]), counted, schedule.memory[device], schedule.makespan_s)
    return found, peaks


def _curve(static: float, holds: Holds) -> _Curve:
    """What is freed at an instant is freed before anything new is held; what is held for no time at all is a peak in
    between."""
    until = np.maximum(holds.since_s, holds.until_s)
    times, at = np.unique(np.concatenate([[0.0], holds.since_s, until]), return_inverse=True)
    since, end = at[1 : 1 + len(until)], at[1 + len(until) :]
    lasts = end > since
    taken = sums(since[lasts], holds.nbytes[lasts], len(times))
    freed = sums(end[lasts], holds.nbytes[lasts], len(times))
    level = static + np.cumsum(taken - freed)
    brief = np.zeros(len(times))
    np.maximum.at(brief, since[~lasts], holds.nbytes[~lasts])
    return _Curve(times, level, float(max(level.max(), (level - taken + brief)[brief > 0].max(initial=static))))


def _compare(device: int, static: float, counted: _Curve, told: MemoryCurve, makespan_s: float) -> list[str]:
    slack = SLACK * counted.peak_bytes
    if not abs(told.static_bytes - static) <= slack:
        return [f"device {device}: {told.static_bytes} bytes are held throughout, expected {static}"]
    if not abs(told.peak_bytes - counted.peak_bytes) <= slack:
        return [f"device {device}: the memory curve peaks at {told.peak_bytes} bytes, expected {counted.peak_bytes}"]
    times, nbytes = np.array(told.times_s), np.array(told.nbytes)
    if len(times) != len(nbytes) or (np.diff(times) < 0).any():
        return [f"device {device}: the times of its memory curve do not ascend"]
    moments = np.unique(np.concatenate([times, counted.times_s]))
    lasting = np.diff(moments) > INSTANT * makespan_s
    middle = ((moments[1:] + moments[:-1]) / 2)[lasting]
    levels = np.concatenate([[static], nbytes])[np.searchsorted(times, middle, "right")]
    expected = counted.nbytes[np.searchsorted(counted.times_s, middle, "right") - 1]
    wrong = np.flatnonzero(~(np.abs(levels - expected) <= slack))
    if not len(wrong):
        return []
    at = wrong[0]
    return [f"device {device}: {levels[at]} bytes are held at {middle[at]} s, expected {expected[at]}"]
