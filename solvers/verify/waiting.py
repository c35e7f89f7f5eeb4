"""Nothing starts before its inputs are there and it is its turn, also that which the plan states for a link; nothing
idles while something could run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.plan import ACTION_KINDS, Action, Message, Plan
from solvers.plan.schedule import Schedule
from solvers.verify.arrays.alike import INSTANT
from solvers.verify.arrays.ragged import overlaps
from solvers.verify.hosting import Copies
from solvers.verify.spans import Spans, gone_s, made_s
from solvers.verify.travel.transfers import Moves
from solvers.verify.work.jobs import BACKWARDS, UPDATE, Jobs
from solvers.verify.work.messages import Messages


def ready_s(jobs: Jobs, messages: Messages, moves: Moves, copies: Copies, spans: Spans, end_s: Floats) -> Floats:
    """[spans] s, when the last of what a span waits for is done. end_s: [spans] when each is over."""
    ready = np.zeros(len(end_s))
    end = end_s[spans.turns]
    made = made_s(moves, end)
    gone = gone_s(moves, made, end_s[spans.departures])
    ready[spans.departures] = made[moves.sends]
    ready[spans.arrivals] = gone[moves.parts.sending[moves.arrives]]
    ready[spans.reduces] = _gradients_ready(jobs, moves, end)
    there = np.where(moves.direct, made[moves.parts.sending], gone[moves.parts.sending])
    there[moves.arrives] = end_s[spans.arrivals]
    turns = np.zeros(len(end))
    np.maximum.at(turns, moves.parts.read_by, there[moves.parts.read_of])
    earlier, later = _waits(jobs, messages)
    np.maximum.at(turns, later, end[earlier])
    for stage in np.unique(moves.reduces.stage).tolist():
        updates = (jobs.stage[jobs.job] == stage) & (jobs.kind[jobs.job] == UPDATE)
        summed = end_s[spans.reduces[moves.reduces.stage == stage]].max()
        turns[updates] = np.maximum(turns[updates], summed)
    ready[spans.stored] = end[copies.saves]
    ready[spans.fetched] = np.maximum(end_s[spans.stored], end[copies.lets])
    turns[copies.needs] = np.maximum(turns[copies.needs], end_s[spans.fetched])
    in_turn = (jobs.before >= 0) & ~jobs.several_at_once[jobs.device]
    turns[in_turn] = np.maximum(turns[in_turn], end[jobs.before[in_turn]])
    ready[spans.turns] = turns
    return ready


def priorities(jobs: Jobs, moves: Moves, copies: Copies, spans: Spans) -> Floats:
    """[spans] What goes first where several could, the least first; those of equal priority may go either way.

    A turn has its position in its device's order; a transfer has what `transfers` and `reduction` say.
    """
    priority = np.zeros(sum(map(len, spans)))
    priority[spans.turns] = jobs.position
    priority[spans.departures] = moves.departures.priority
    priority[spans.arrivals] = moves.arrivals.priority
    priority[spans.reduces] = moves.reduces.priority
    priority[spans.stored], priority[spans.fetched] = jobs.position[copies.saves], jobs.position[copies.needs]
    return priority


def _waits(jobs: Jobs, messages: Messages) -> tuple[Ints, Ints]:
    """Pairs of turns of one device of which the later waits for the earlier: their micro-batches overlap."""
    count, replicas = jobs.slices // jobs.replicas, jobs.replicas
    a, b = messages.earlier, messages.later
    shapes, which = np.unique(np.stack([count[a], count[b], replicas[a]], axis=1), axis=0, return_inverse=True)
    earlier, later = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for number, (earlier_count, later_count, r) in enumerate(shapes.tolist()):
        i, j, _ = overlaps(earlier_count, later_count)
        p = np.arange(r)
        rows = which.reshape(-1) == number
        earlier.append((jobs.first[a[rows], None, None] + (i * r)[:, None] + p).reshape(-1))
        later.append((jobs.first[b[rows], None, None] + (j * r)[:, None] + p).reshape(-1))
    return np.concatenate(earlier), np.concatenate(later)


def _gradients_ready(jobs: Jobs, moves: Moves, end: Floats) -> Floats:
    """[reduces] s, when all replicas have done all backwards. end: of turns."""
    ready = np.zeros(len(moves.reduces.stage))
    for stage in np.unique(moves.reduces.stage).tolist():
        backward = (jobs.stage[jobs.job] == stage) & np.isin(jobs.kind[jobs.job], BACKWARDS)
        ready[moves.reduces.stage == stage] = end[backward].max()
    return ready


class _Times(NamedTuple):
    """[spans] since when a span could start; since when it is sure to be known to; and what goes first."""

    ready_s: Floats
    known_s: Floats
    priority: Floats


def waiting(
    jobs: Jobs, messages: Messages, moves: Moves, copies: Copies, spans: Spans, schedule: Schedule, before: Ints
) -> list[str]:
    """Spans that start before they can, or that wait though they could start.

    Every span starts when its inputs are there or when its resource is free, whichever is later; among those that
    could start, one of least priority does (see `priorities`). before: [spans] what each waits for because the plan
    states the order of its link, -1 for nothing (see `stated_turns`).
    """
    c, instant = schedule.columns, INSTANT * schedule.makespan_s
    ready = ready_s(jobs, messages, moves, copies, spans, c.end_s)
    # What takes no time lets others start at the very instant at which it starts itself, maybe after these did.
    brief = c.end_s <= c.start_s
    known = ready_s(jobs, messages, moves, copies, spans, c.end_s + 2 * instant * brief) if brief.any() else ready
    early = np.flatnonzero(c.start_s < ready - instant)
    stated = before >= 0
    ready[stated] = np.maximum(ready[stated], c.end_s[before[stated]])
    known[stated] = np.maximum(known[stated], c.end_s[before[stated]])
    findings = [
        f"{schedule.action(int(row))} on {schedule.resources[c.resource[row]]} starts at {c.start_s[row]} s, before"
        f" its inputs are there at {ready[row]} s"
        for row in early[:10]
    ]
    shared = {f"device {device}" for device in np.flatnonzero(jobs.several_at_once).tolist()}
    alone = np.array([name not in shared for name in schedule.resources], bool)[c.resource]
    late = np.flatnonzero(~alone & (c.start_s > ready + instant))
    findings += [_late(schedule, row, ready, "and it need not wait for others") for row in late[:10]]
    return findings + _idling(_Times(ready, known, priorities(jobs, moves, copies, spans)), alone, schedule, instant)


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
    findings = [
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
    findings += [_late(schedule, rows[at], times.ready_s, why) for at in np.flatnonzero(idle)[:10]]
    passed = _largest(priority, _first_from(start, times.known_s[rows], resource), here) > priority + 1e-9
    why = "and what is to go after it goes first"
    return findings + [_late(schedule, rows[at], times.ready_s, why) for at in np.flatnonzero(passed & ~idle)[:10]]


def _late(schedule: Schedule, row: np.int64, ready: Floats, why: str) -> str:
    c = schedule.columns
    return (
        f"{schedule.action(int(row))} on {schedule.resources[c.resource[row]]} starts at {c.start_s[row]} s, expected"
        f" earlier: its inputs are there at {ready[row]} s, {why}"
    )


def _first_from(start: Floats, instant_s: Floats, resource: Ints) -> Ints:
    """For every row the first of its resource that starts at ``instant_s`` or later; rows are by resource and start."""
    first = np.zeros(len(start), np.int64)
    edges = np.flatnonzero(np.diff(resource, prepend=-1, append=-1))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        first[low:high] = low + np.searchsorted(start[low:high], instant_s[low:high])
    return first


def _largest(values: Floats, low: Ints, high: Ints) -> Floats:
    """The largest of ``values[low : high]`` for every pair, -inf where there is none."""
    maxima = np.full(len(low), -np.inf)
    pending = np.flatnonzero(low < high)
    level, width = values, 1
    while True:
        span = high[pending] - low[pending]
        covered = pending[span < 2 * width]  # two windows of this width cover it
        maxima[covered] = np.maximum(level[low[covered]], level[high[covered] - width])
        pending = pending[span >= 2 * width]
        if not len(pending):
            break
        level = np.maximum(level[: len(level) - width], level[width:])
        width *= 2
    return maxima


def stated_positions(plan: Plan, moves: Moves) -> tuple[Ints, list[str]]:
    """([arrivals] their position in the row of ``plan.messages`` for their link, -1 where none is stated; what the
    rows lack or have too much).

    A row names all that its link carries but all-reduces. Messages of one name are numbered as they stand in
    ``moves``: by bundle, sender's slice and reader's slice.
    """
    e = moves.arrivals
    position, findings = np.full(len(e.stage), -1, np.int64), []
    for link, row in plan.messages:
        at = {message: place for place, message in enumerate(row)}
        here = np.flatnonzero(e.resource == moves.resources.index(link)) if link in moves.resources else ()
        count: dict[tuple[Action, int], int] = {}
        for arrival in map(int, here):
            kind = ACTION_KINDS[int(e.kind[arrival])]
            key = Action(int(e.stage[arrival]), kind, int(e.micro_batch[arrival])), int(e.to_device[arrival])
            message = Message(*key, count.setdefault(key, 0))
            count[key] += 1
            if message not in at:
                findings.append(f"{link} carries {message}, which its stated order lacks")
            position[arrival] = at.pop(message, -1)
        findings += [f"{link} does not carry {message}, which its stated order names" for message in list(at)[:1]]
    return position, findings


def stated_turns(position: Ints, moves: Moves, arrivals: Ints, schedule: Schedule) -> tuple[Ints, list[str]]:
    """([spans] the span whose end each waits for on its link, -1 for none; spans that go before their turn).

    position: see `stated_positions`. arrivals: the span of each.
    """
    c, instant = schedule.columns, INSTANT * schedule.makespan_s
    before = np.full(len(c.start_s), -1, np.int64)
    stated = np.flatnonzero(position >= 0)
    order = stated[np.lexsort((position[stated], moves.arrivals.resource[stated]))]
    same = moves.arrivals.resource[order[1:]] == moves.arrivals.resource[order[:-1]]
    earlier, later = arrivals[order[:-1]][same], arrivals[order[1:]][same]
    before[later] = earlier
    findings = [
        f"{schedule.resources[c.resource[b]]}: {schedule.action(int(b))} starts at {c.start_s[b]} s, before"
        f" {schedule.action(int(a))}, which the stated order has first, ends at {c.end_s[a]} s"
        for a, b in zip(earlier, later, strict=True)
        if c.start_s[b] < c.end_s[a] - instant
    ]
    return before, findings
