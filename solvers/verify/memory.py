"""Memory counted anew: what is held, from when and until when; and the curve that it makes."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Floats
from solvers.plan.plan import Plan
from solvers.plan.schedule import Schedule
from solvers.problem.problem import Problem
from solvers.verify.amounts import (
    borrowed_bytes,
    held_throughout,
    received_here_bytes,
    saved_bytes,
    sizes,
    workspace_bytes,
)
from solvers.verify.arrays.alike import SLACK
from solvers.verify.arrays.ragged import starts
from solvers.verify.curves import Holds, curve_findings
from solvers.verify.groups import Group
from solvers.verify.parted import held_for_next_part
from solvers.verify.spans import Spans
from solvers.verify.travel.transfers import Moves
from solvers.verify.work.jobs import BACKWARDS, FORWARD, Jobs


def memory(group: Group, jobs: Jobs, moves: Moves, spans: Spans, schedule: Schedule) -> list[str]:
    """Devices of a group whose memory is not what is held there at every moment, or more than they have."""
    problem, plan, devices = group.problem, group.plan, group.problem.cluster.devices
    if len(schedule.memory) != len(devices):
        return [f"the schedule tells the memory of {len(schedule.memory)} devices, expected {len(devices)}"]
    static = np.zeros(len(devices))
    each = {replicas: held_throughout(problem, replicas) for replicas in set(map(len, group.rings))}
    for stage, ring in zip(plan.stages, group.rings, strict=True):
        mine, replicas = list(stage.operators), len(ring)
        static[list(stage.devices)] += each[replicas][mine].sum()
        static[list(stage.devices)] += borrowed_bytes(problem, mine, replicas)
    holds: list[Holds] = []
    if problem.stated_bytes is None:
        released = _released(problem, jobs, spans, schedule)
        holds = [
            *_activations(problem, plan, jobs, spans, schedule, released),
            *_buffers(jobs, moves, spans, schedule, released),
            *_handed_on(problem, jobs, spans, schedule),
        ]
    found, peaks = curve_findings(holds, group.every[0], static, schedule)
    for device, peak in peaks.items():
        most = devices[device].memory_bytes
        if peak > most * (1 + SLACK):
            found.append(f"device {device}: peak of {peak:.0f} bytes exceeds its memory of {most:.0f}")
    return found


def _released(problem: Problem, jobs: Jobs, spans: Spans, schedule: Schedule) -> Floats:
    """[turns] s, when what a turn keeps is dropped: at the end of the last backward of the same slice (of single
    operators, of those that mirror it), or at its own."""
    end = schedule.columns.end_s[spans.turns]
    groups: dict[tuple[int, int], int] = {}
    group = np.zeros(len(jobs.stage), np.int64)
    for job, (stage, operator) in enumerate(zip(jobs.stage.tolist(), jobs.operator.tolist(), strict=True)):
        forward = problem.graph.operators[operator].forward_of if operator >= 0 else None
        group[job] = groups.setdefault((stage, operator if forward is None else forward), len(groups))
    keeps = np.isin(jobs.kind, (FORWARD, *BACKWARDS))
    slices = np.zeros(len(groups), np.int64)
    slices[group[keeps]] = jobs.slices[keeps]
    last = np.zeros(int(slices.sum()))
    turn = np.flatnonzero(keeps[jobs.job])
    slot = starts(slices)[group[jobs.job[turn]]] + turn - jobs.first[jobs.job[turn]]
    backward = jobs.kind[jobs.job[turn]] != FORWARD
    np.maximum.at(last, slot[backward], end[turn[backward]])
    released = end.copy()
    released[turn] = np.maximum(end[turn], last[slot])
    return released


def _activations(
    problem: Problem, plan: Plan, jobs: Jobs, spans: Spans, schedule: Schedule, released: Floats
) -> list[Holds]:
    """What forwards save, what is there until the next part of a backward, what forwards that run again keep of their
    inputs, and workspace."""
    c = schedule.columns
    start, end = c.start_s[spans.turns], c.end_s[spans.turns]
    since = start.copy()
    for again in np.flatnonzero(jobs.again).tolist():  # saved by the second run, not by the first
        rows = np.flatnonzero((jobs.stage == jobs.stage[again]) & (jobs.kind == FORWARD))
        turns = jobs.first[rows][:, None] + np.arange(jobs.slices[again])
        since[turns] = start[jobs.first[again] : jobs.first[again + 1]]
    held, following = held_for_next_part(problem, plan, jobs)
    parted = np.flatnonzero(following >= 0)
    saved = saved_bytes(problem, jobs) - np.where(jobs.kind == FORWARD, held, 0.0)
    return [
        Holds(jobs.device, since, released, saved[jobs.job]),
        Holds(jobs.device[parted], start[parted], end[following[parted]], held[jobs.job[parted]]),
        Holds(jobs.device, start, released, received_here_bytes(problem, plan, jobs)[jobs.job]),
        Holds(jobs.device, start, end, workspace_bytes(problem, jobs)[jobs.job]),
    ]


def _buffers(jobs: Jobs, moves: Moves, spans: Spans, schedule: Schedule, released: Floats) -> list[Holds]:
    """What was received, from when it begins to come until its readers are done (of a forward, its backward); what
    is sent, from when the first of it is made until the last of it has gone."""
    c = schedule.columns
    end = c.end_s[spans.turns]
    done = np.where(jobs.kind[jobs.job] == FORWARD, released, end)
    read = np.zeros(len(moves.parts.sending))
    np.maximum.at(read, moves.parts.read_of, done[moves.parts.read_by])
    arrived = np.flatnonzero(moves.arrives)
    made = np.full(len(moves.sendings.bundle), np.inf)
    np.minimum.at(made, moves.sendings.made_at, end[moves.sendings.made_by])
    gone = np.full(len(made), -np.inf)
    gone[moves.sends] = c.end_s[spans.departures]
    np.maximum.at(gone, moves.parts.sending[arrived], c.end_s[spans.arrivals])
    sent = np.flatnonzero(np.isfinite(gone))
    return [
        Holds(moves.parts.device[arrived], c.start_s[spans.arrivals], read[arrived], moves.arrivals.nbytes),
        Holds(moves.sendings.device[sent], made[sent], gone[sent], moves.kept_bytes[sent]),
    ]


def _handed_on(problem: Problem, jobs: Jobs, spans: Spans, schedule: Schedule) -> list[Holds]:
    """What single operators leave for others on their device, from their end until these have ended; not what a
    forward leaves in training, which is saved, nor gradients of parameters, which are static."""
    alone = jobs.operator >= 0
    if not alone.any():
        return []
    size = sizes(problem.graph)
    end = schedule.columns.end_s[spans.turns]
    turns = np.flatnonzero(alone[jobs.job])
    turns = turns[np.argsort(jobs.position[turns], kind="stable")]
    at = np.full((len(problem.graph), len(problem.cluster)), -1, np.int64)
    at[jobs.operator[jobs.job[turns]], jobs.device[turns]] = turns
    tensors, readers = size.read, size.reader
    useful = size.counts[tensors] & ~size.updates[readers]
    tensors, readers = tensors[useful], readers[useful]
    makers, consumers = at[size.producer[tensors]], at[readers]
    row, device = np.nonzero((makers >= 0) & (consumers >= 0))
    maker, consumer, tensor = makers[row, device], consumers[row, device], tensors[row]
    if problem.has_backward():
        kept = jobs.kind[jobs.job[maker]] != FORWARD
        maker, consumer, tensor, device = maker[kept], consumer[kept], tensor[kept], device[kept]
    pair, which = np.unique(np.stack([tensor, maker]), axis=1, return_inverse=True)
    until = np.zeros(pair.shape[1])
    np.maximum.at(until, which.reshape(-1), end[consumer])
    nbytes = size.tensor.at(pair[0], jobs.samples[jobs.job[pair[1]]])
    return [Holds(jobs.device[pair[1]], end[pair[1]], until, nbytes)]
