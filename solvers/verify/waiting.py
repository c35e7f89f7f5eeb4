"""Nothing starts before its inputs are there, and nothing idles while something could run."""

from __future__ import annotations

import numpy as np

from solvers.problem import Problem
from solvers.schedule import Schedule
from solvers.verify.jobs import BACKWARDS, UPDATE, Jobs
from solvers.verify.messages import Messages
from solvers.verify.ragged import Flags, Floats, Ints
from solvers.verify.sharing import overlaps
from solvers.verify.spans import INSTANT, Spans
from solvers.verify.transfers import Moves


def waiting(
    problem: Problem, jobs: Jobs, messages: Messages, moves: Moves, spans: Spans, schedule: Schedule
) -> list[str]:
    """Spans that start before they can, or that wait though they could start.

    Every span starts when its inputs are there or when its resource is free, whichever is later; among those that
    could start, the one of least priority (see `transfers`) does.
    """
    c = schedule.columns
    ready = np.zeros(len(c.start_s))
    priority = np.zeros(len(c.start_s))
    ready[spans.turns] = _turns_ready(jobs, messages, moves, spans, schedule)
    priority[spans.turns] = jobs.position
    crossings = moves.crossings
    ready[spans.departures] = spans.made_s[crossings.sends]
    priority[spans.departures] = moves.departures.priority
    ready[spans.arrivals] = spans.gone_s[crossings.sending[crossings.arrives]]
    priority[spans.arrivals] = moves.arrivals.priority
    ready[spans.reduces] = _gradients_ready(jobs, moves, spans, schedule)
    priority[spans.reduces] = moves.reduces.priority
    shared = {f"device {device}" for device in np.flatnonzero(jobs.several_at_once).tolist()}
    exclusive = np.array([name not in shared for name in schedule.resources], bool)
    instant = INSTANT * schedule.makespan_s
    early = np.flatnonzero(c.start_s < ready - instant)
    found = [
        f"{schedule.action(row)} on {schedule.resources[c.resource[row]]} starts at {c.start_s[row]} s, before its"
        f" inputs are there at {ready[row]} s"
        for row in early[:10].tolist()
    ]
    return found + _idling(ready, priority, exclusive, schedule, instant)


def _turns_ready(jobs: Jobs, messages: Messages, moves: Moves, spans: Spans, schedule: Schedule) -> Floats:
    """[turns] s, when the inputs of a turn, and the turn before it in its device's order, are done."""
    c = schedule.columns
    end = c.end_s[spans.turns]
    ready = np.zeros(len(end))
    earlier, later = _waits(jobs, messages)
    np.maximum.at(ready, later, end[earlier])
    crossings = moves.crossings
    there = np.where(crossings.direct, spans.made_s[crossings.sending], spans.gone_s[crossings.sending])
    there[crossings.arrives] = c.end_s[spans.arrivals]
    np.maximum.at(ready, crossings.read_by, there[crossings.read_of])
    for stage in np.unique(moves.reduces.stage).tolist():
        updates = (jobs.stage[jobs.job] == stage) & (jobs.kind[jobs.job] == UPDATE)
        summed = c.end_s[spans.reduces[moves.reduces.stage == stage]].max()
        ready[updates] = np.maximum(ready[updates], summed)
    in_turn = (jobs.before >= 0) & ~jobs.several_at_once[jobs.device]
    ready[in_turn] = np.maximum(ready[in_turn], end[jobs.before[in_turn]])
    return ready


def _waits(jobs: Jobs, messages: Messages) -> tuple[Ints, Ints]:
    """Pairs of turns of one device of which the later waits for the earlier: their micro-batches overlap."""
    count, replicas = jobs.slices // jobs.replicas, jobs.replicas
    a, b = messages.earlier, messages.later
    shapes, which = np.unique(np.stack([count[a], count[b], replicas[a]], axis=1), axis=0, return_inverse=True)
    earlier, later = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number, (mine, theirs, r) in enumerate(shapes.tolist()):
        i, j, _ = overlaps(mine, theirs)
        p = np.arange(r)
        rows = which.reshape(-1) == number
        earlier.append((jobs.first[a[rows], None, None] + (i * r)[:, None] + p).reshape(-1))
        later.append((jobs.first[b[rows], None, None] + (j * r)[:, None] + p).reshape(-1))
    return np.concatenate(earlier), np.concatenate(later)


def _gradients_ready(jobs: Jobs, moves: Moves, spans: Spans, schedule: Schedule) -> Floats:
    """[reduces] s, when all replicas have done all backwards."""
    end = schedule.columns.end_s[spans.turns]
    ready = np.zeros(len(moves.reduces.stage))
    for stage in np.unique(moves.reduces.stage).tolist():
        backward = (jobs.stage[jobs.job] == stage) & np.isin(jobs.kind[jobs.job], BACKWARDS)
        ready[moves.reduces.stage == stage] = end[backward].max()
    return ready


def _idling(ready: Floats, priority: Floats, exclusive: Flags, schedule: Schedule, instant: float) -> list[str]:
    """Spans that overlap on a resource, that wait while it is idle, or while another goes before its turn."""
    c = schedule.columns
    alone = exclusive[c.resource]
    late = np.flatnonzero(~alone & (c.start_s > ready + instant))
    found = [_late(schedule, row, ready, "though it need not wait for others") for row in late[:10].tolist()]
    rows = np.flatnonzero(alone)
    rows = rows[np.lexsort((c.end_s[rows], c.start_s[rows], c.resource[rows]))]
    if not len(rows):
        return found
    start, end, resource = c.start_s[rows], c.end_s[rows], c.resource[rows]
    free = np.concatenate([[0.0], end[:-1]])  # since when the resource is
    free[1:][resource[1:] != resource[:-1]] = 0.0
    found += [
        f"{schedule.resources[resource[at]]}: {schedule.action(int(rows[at - 1]))} and"
        f" {schedule.action(int(rows[at]))} overlap"
        for at in np.flatnonzero(start < free - instant)[:10]
    ]
    # while a span waits, others start: those at positions from ``since`` up to its own
    since = _first_after(start, ready[rows] + instant, resource)
    here = np.arange(len(rows))
    gaps = np.concatenate([[0], np.cumsum(start > free + instant)])
    idle = gaps[here + 1] - gaps[np.minimum(since, here + 1)] > 0
    found += [_late(schedule, rows[at], ready, "and its resource is idle") for at in np.flatnonzero(idle)[:10]]
    passed = _largest(priority[rows], since, here) > priority[rows] + 1e-9
    found += [
        _late(schedule, rows[at], ready, "and others that are not before it in order go first")
        for at in np.flatnonzero(passed & ~idle)[:10]
    ]
    return found


def _late(schedule: Schedule, row: int, ready: Floats, why: str) -> str:
    c = schedule.columns
    return (
        f"{schedule.action(row)} on {schedule.resources[c.resource[row]]} starts at {c.start_s[row]} s, expected"
        f" earlier: its inputs are there at {ready[row]} s, {why}"
    )


def _first_after(start: Floats, instant_s: Floats, resource: Ints) -> Ints:
    """For every row the first row of its resource that starts after ``instant_s``; rows are by resource and start."""
    found = np.zeros(len(start), np.int64)
    edges = np.flatnonzero(np.diff(resource, prepend=-1, append=-1))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        found[low:high] = low + np.searchsorted(start[low:high], instant_s[low:high], "right")
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
