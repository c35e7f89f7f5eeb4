"""When everything could start: its inputs are there, and it is its turn."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.verify.arrays.sharing import overlaps
from solvers.verify.spans import Spans, gone_s, made_s
from solvers.verify.travel.transfers import Moves
from solvers.verify.work.jobs import BACKWARDS, UPDATE, Jobs
from solvers.verify.work.messages import Messages


def ready_s(jobs: Jobs, messages: Messages, moves: Moves, spans: Spans, end_s: Floats) -> Floats:
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
    in_turn = (jobs.before >= 0) & ~jobs.several_at_once[jobs.device]
    turns[in_turn] = np.maximum(turns[in_turn], end[jobs.before[in_turn]])
    ready[spans.turns] = turns
    return ready


def priorities(jobs: Jobs, moves: Moves, spans: Spans) -> Floats:
    """[spans] What goes first where several could, the least first; those of equal priority may go either way.

    A turn has its position in its device's order; a transfer has what `transfers` and `reduction` say.
    """
    priority = np.zeros(sum(map(len, spans)))
    priority[spans.turns] = jobs.position
    priority[spans.departures] = moves.departures.priority
    priority[spans.arrivals] = moves.arrivals.priority
    priority[spans.reduces] = moves.reduces.priority
    return priority


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


def _gradients_ready(jobs: Jobs, moves: Moves, end: Floats) -> Floats:
    """[reduces] s, when all replicas have done all backwards. end: of turns."""
    ready = np.zeros(len(moves.reduces.stage))
    for stage in np.unique(moves.reduces.stage).tolist():
        backward = (jobs.stage[jobs.job] == stage) & np.isin(jobs.kind[jobs.job], BACKWARDS)
        ready[moves.reduces.stage == stage] = end[backward].max()
    return ready
