"""Memory counted independently: what is held, from when until when; the curve that it makes, if a schedule has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.plan.schedule import MemoryCurve, Schedule
from solvers.problem.problem import Problem
from solvers.verify.amounts import (
    borrowed_bytes,
    held_for_next_part,
    held_throughout,
    received_here_bytes,
    saved_bytes,
    sizes,
    workspace_bytes,
)
from solvers.verify.arrays.alike import INSTANT, SLACK
from solvers.verify.arrays.ragged import starts, sums
from solvers.verify.groups import Group
from solvers.verify.hosting import Copies
from solvers.verify.spans import Spans
from solvers.verify.travel.transfers import Moves
from solvers.verify.work.jobs import BACKWARDS, FORWARD, Jobs


def memory(group: Group, jobs: Jobs, moves: Moves, copies: Copies, spans: Spans, schedule: Schedule) -> list[str]:
    """Devices of a group whose memory is not what is held there at every moment, or more than they have."""
    problem, plan, devices = group.problem, group.plan, group.problem.cluster.devices
    if len(schedule.memory) != len(devices):
        return [f"the schedule states the memory of {len(schedule.memory)} devices, expected {len(devices)}"]
    static = np.zeros(len(devices))
    each = {replicas: held_throughout(problem, replicas) for replicas in set(map(len, group.rings))}
    for stage, ring in zip(plan.stages, group.rings, strict=True):
        operators, replicas = list(stage.operators), len(ring)
        static[list(stage.devices)] += each[replicas][operators].sum()
        static[list(stage.devices)] += borrowed_bytes(problem, operators, replicas)
    holds: list[Holds] = []
    if problem.stated_bytes is None:
        released = _released(problem, jobs, spans, schedule)
        holds = [
            *_activations(group, jobs, copies, spans, schedule, released),
            *_buffers(jobs, moves, spans, schedule, released),
            *_handed_on(problem, jobs, spans, schedule),
        ]
    findings, peaks = curve_findings(holds, group.every[0], static, schedule)
    for device, peak in peaks.items():
        most = devices[device].memory_bytes
        if peak > most * (1 + SLACK):
            findings.append(f"device {device}: peak of {peak:.0f} bytes exceeds its memory of {most:.0f}")
    return findings


def _released(problem: Problem, jobs: Jobs, spans: Spans, schedule: Schedule) -> Floats:
    """[turns] s, when what a turn keeps is dropped: at the end of the last backward of the same slice (of single
    operators, of those that mirror it), or at its own."""
    end = schedule.columns.end_s[spans.turns]
    groups: dict[tuple[int, int], int] = {}
    group = np.zeros(len(jobs.stage), np.int64)
    for job, (stage, operator) in enumerate(zip(jobs.stage.tolist(), jobs.operator.tolist(), strict=True)):
        forward = problem.graph.operators[operator].forward_of if operator >= 0 else None
        group[job] = groups.setdefault((stage, operator if forward is None else forward), len(groups))
    holding = np.isin(jobs.kind, (FORWARD, *BACKWARDS))
    slices = np.zeros(len(groups), np.int64)
    slices[group[holding]] = jobs.slices[holding]
    last = np.zeros(int(slices.sum()))
    turn = np.flatnonzero(holding[jobs.job])
    slot = starts(slices)[group[jobs.job[turn]]] + turn - jobs.first[jobs.job[turn]]
    backward = jobs.kind[jobs.job[turn]] != FORWARD
    np.maximum.at(last, slot[backward], end[turn[backward]])
    released = end.copy()
    released[turn] = np.maximum(end[turn], last[slot])
    return released


def _activations(
    group: Group, jobs: Jobs, copies: Copies, spans: Spans, schedule: Schedule, released: Floats
) -> list[Holds]:
    """What forwards save, of what goes to the host until it is there and from when it begins to come back; what is
    there until the next part of a backward, what forwards that run again keep of their inputs, and workspace."""
    c, problem, plan = schedule.columns, group.problem, group.plan
    start, end = c.start_s[spans.turns], c.end_s[spans.turns]
    since = start.copy()
    for again in np.flatnonzero(jobs.again).tolist():  # saved by the second run, not by the first
        rows = np.flatnonzero((jobs.stage == jobs.stage[again]) & (jobs.kind == FORWARD))
        turns = jobs.first[rows][:, None] + np.arange(jobs.slices[again])
        since[turns] = start[jobs.first[again] : jobs.first[again + 1]]
    held, following = held_for_next_part(problem, plan, jobs)
    parted = np.flatnonzero(following >= 0)
    saved = saved_bytes(problem, jobs) - np.where(jobs.kind == FORWARD, held, 0.0)
    sent, stays = copies.saves, saved[jobs.job]
    stays[sent] -= copies.nbytes
    return [
        Holds(jobs.device, since, released, stays),
        Holds(jobs.device[sent], since[sent], c.end_s[spans.stored], copies.nbytes),
        Holds(jobs.device[sent], c.start_s[spans.fetched], released[sent], copies.nbytes),
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
        unsaved = jobs.kind[jobs.job[maker]] != FORWARD
        maker, consumer, tensor, device = maker[unsaved], consumer[unsaved], tensor[unsaved], device[unsaved]
    pair, which = np.unique(np.stack([tensor, maker]), axis=1, return_inverse=True)
    until = np.zeros(pair.shape[1])
    np.maximum.at(until, which.reshape(-1), end[consumer])
    nbytes = size.tensor.at(pair[0], jobs.samples[jobs.job[pair[1]]])
    return [Holds(jobs.device[pair[1]], end[pair[1]], until, nbytes)]


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
    findings, peaks = [], {}
    for device in devices:
        held = Holds._make(column[order[cuts[device] : cuts[device + 1]]] for column in every)
        counted = _curve(float(static[device]), held)
        peaks[device] = counted.peak_bytes
        findings += _compare(device, float(static[device]), counted, schedule.memory[device], schedule.makespan_s)
    return findings, peaks


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


def _compare(device: int, static: float, counted: _Curve, stated: MemoryCurve, makespan_s: float) -> list[str]:
    slack = SLACK * counted.peak_bytes
    if not abs(stated.static_bytes - static) <= slack:
        return [f"device {device}: {stated.static_bytes} bytes are held throughout, expected {static}"]
    if not abs(stated.peak_bytes - counted.peak_bytes) <= slack:
        return [f"device {device}: the memory curve peaks at {stated.peak_bytes} bytes, expected {counted.peak_bytes}"]
    times, nbytes = np.array(stated.times_s), np.array(stated.nbytes)
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
