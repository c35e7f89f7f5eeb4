"""Nothing starts before its inputs are there, and nothing idles while something could run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.schedule import Schedule
from solvers.verify.arrays.alike import INSTANT
from solvers.verify.ready import priorities, ready_s
from solvers.verify.spans import Spans
from solvers.verify.travel.transfers import Moves
from solvers.verify.work.jobs import Jobs
from solvers.verify.work.messages import Messages


class _Times(NamedTuple):
    """[spans] since when a span could start; since when it is sure to be known to; and what goes first."""

    ready_s: Floats
    known_s: Floats
    priority: Floats


def waiting(jobs: Jobs, messages: Messages, moves: Moves, spans: Spans, schedule: Schedule, before: Ints) -> list[str]:
    """Spans that start before they can, or that wait though they could start.

    Every span starts when its inputs are there or when its resource is free, whichever is later; among those that
    could start, one of least priority does (see `priorities`). before: [spans] what each waits for because the plan
    states the order of its link, -1 for nothing (see `stated_turns`).
    """
    c, instant = schedule.columns, INSTANT * schedule.makespan_s
    ready = ready_s(jobs, messages, moves, spans, c.end_s)
    # What takes no time lets others start at the very instant at which it starts itself, maybe after these did.
    brief = c.end_s <= c.start_s
    known = ready_s(jobs, messages, moves, spans, c.end_s + 2 * instant * brief) if brief.any() else ready
    early = np.flatnonzero(c.start_s < ready - instant)
    stated = before >= 0
    ready[stated] = np.maximum(ready[stated], c.end_s[before[stated]])
    known[stated] = np.maximum(known[stated], c.end_s[before[stated]])
    found = [
        f"{schedule.action(int(row))} on {schedule.resources[c.resource[row]]} starts at {c.start_s[row]} s, before"
        f" its inputs are there at {ready[row]} s"
        for row in early[:10]
    ]
    shared = {f"device {device}" for device in np.flatnonzero(jobs.several_at_once).tolist()}
    alone = np.array([name not in shared for name in schedule.resources], bool)[c.resource]
    late = np.flatnonzero(~alone & (c.start_s > ready + instant))
    found += [_late(schedule, row, ready, "and it need not wait for others") for row in late[:10]]
    return found + _idling(_Times(ready, known, priorities(jobs, moves, spans)), alone, schedule, instant)


def _idling(times: _Times, alone: Bools, schedule: Schedule, instant: float) -> list[str]:
    """Spans that overlap on a resource, that wait while it is idle, or while another goes before its turn. alone:
    [spans] whether its resource is for one at a time."""
    c = schedule.columns
    rows = np.flatnonzero(alone)
    rows = rows[np.lexsort((times.priority[rows], c.end_s[rows], c.start_s[rows], c.resource[rows]))]
    if not len(rows):
        return []
    start, end, resource = c.start_s[rows], c.end_s[rows], c.resource[rows]
    free = np.concatenate([[0.0], end[:-1]])  # since when the resource is
    free[1:][resource[1:] != resource[:-1]] = 0.0
    found = [
        f"{schedule.resources[resource[at]]}: {schedule.action(int(rows[at - 1]))} and"
        f" {schedule.action(int(rows[at]))} overlap"
        for at in np.flatnonzero(start < free - instant)[:10]
    ]
    # While a span waits, others start: those at positions from ``since`` up to its own.
    ready, priority, here = times.ready_s[rows], times.priority[rows], np.arange(len(rows))
    gaps = np.concatenate([[0], np.cumsum(start > free + instant)])
    since = _first_from(start, ready + instant, resource)
    idle = gaps[here + 1] - gaps[np.minimum(since, here + 1)] > 0
    why = "and its resource is idle"
    found += [_late(schedule, rows[at], times.ready_s, why) for at in np.flatnonzero(idle)[:10]]
    passed = _largest(priority, _first_from(start, times.known_s[rows], resource), here) > priority + 1e-9
    why = "and what is to go after it goes first"
    return found + [_late(schedule, rows[at], times.ready_s, why) for at in np.flatnonzero(passed & ~idle)[:10]]


def _late(schedule: Schedule, row: np.int64, ready: Floats, why: str) -> str:
    c = schedule.columns
    return (
        f"{schedule.action(int(row))} on {schedule.resources[c.resource[row]]} starts at {c.start_s[row]} s, expected"
        f" earlier: its inputs are there at {ready[row]} s, {why}"
    )


def _first_from(start: Floats, instant_s: Floats, resource: Ints) -> Ints:
    """For every row the first of its resource that starts at ``instant_s`` or later; rows are by resource and start."""
    found = np.zeros(len(start), np.int64)
    edges = np.flatnonzero(np.diff(resource, prepend=-1, append=-1))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        found[low:high] = low + np.searchsorted(start[low:high], instant_s[low:high])
    return found


def _largest(values: Floats, low: Ints, high: Ints) -> Floats:
    """The largest of ``values[low : high]`` for every pair, -inf where there is none."""
    found = np.full(len(low), -np.inf)
    asked = np.flatnonzero(low < high)
    level, width = values, 1
    while True:
        span = high[asked] - low[asked]
        mine = asked[span < 2 * width]  # two windows of this width cover it
        found[mine] = np.maximum(level[low[mine]], level[high[mine] - width])
        asked = asked[span >= 2 * width]
        if not len(asked):
            break
        level = np.maximum(level[: len(level) - width], level[width:])
        width *= 2
    return found
