"""Which span of a schedule is which of those that must be there; what is missing, too much, or of a wrong length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.plan.schedule import SPAN_KINDS, Schedule
from solvers.problem.problem import Problem
from solvers.verify.arrays.alike import INSTANT, ROUNDING, SLACK, clusters, joined, paired, unmatched
from solvers.verify.arrays.ragged import ints
from solvers.verify.hosting import Copies
from solvers.verify.travel.reduction import Expected, with_gathers
from solvers.verify.travel.transfers import Moves
from solvers.verify.work.jobs import Jobs, compute_s


class Spans(NamedTuple):
    """Positions of spans in the schedule, for all that must be there."""

    turns: Ints
    """[turns]"""
    departures: Ints
    arrivals: Ints
    reduces: Ints
    stored: Ints
    """[copies] to the host"""
    fetched: Ints
    """[copies] back"""


def spans_of(
    problem: Problem, jobs: Jobs, moves: Moves, copies: Copies, schedule: Schedule, stated: Ints, *, brief_later: bool
) -> tuple[Spans | None, list[str]]:
    """The spans of all turns and transfers; none if some are missing or too many. Sentences in any case.

    stated: [arrivals] position in the order that the plan states for their link, -1 for none: alike ones come in that
    order. brief_later: where transfers are alike, whether what a span that takes no time makes is taken to be there
    only after what else is there at that instant; times do not tell.
    """
    turns, findings = _turns(jobs, schedule)
    if findings:
        return None, findings
    findings = _lengths(problem, jobs, moves, turns, schedule)
    c, instant = schedule.columns, INSTANT * schedule.makespan_s
    moves = moves._replace(resources=(*moves.resources, *_host_lanes(problem)))
    lanes = len(moves.resources) - 2 * len(problem.cluster)
    kinds = (moves.departures, moves.arrivals, moves.reduces, *_copied(problem, jobs, copies, lanes))
    wanted = [np.concatenate(columns) for columns in zip(*map(_columns, kinds), strict=True)]
    rows = np.flatnonzero(c.to_device >= 0)
    names = {name: number for number, name in enumerate(schedule.resources)}
    codes, there = _codes(wanted, ints(names.get(name, -1) for name in moves.resources), rows, schedule)
    if not np.array_equal(np.sort(codes), np.sort(there)):
        return None, findings + _differences(codes, there, wanted, rows, moves, schedule)
    sends, arrives = moves.sends, moves.arrives
    cut = np.cumsum([len(kind.stage) for kind in kinds])
    reduce = c.kind[rows] == SPAN_KINDS.index("S")
    lane = [schedule.resources[r] in moves.resources[lanes:] for r in c.resource[rows].tolist()]
    hosts = np.array(lane, bool) & (c.to_device[rows] == c.device[rows])
    halves = ~reduce & ~hosts & (c.to_device[rows] == c.device[rows])

    def matched(code: Ints, priority: Floats, ready_s: Floats, which: Bools) -> Ints:
        return rows[which][paired(code, there[which], ready_s, priority, c.start_s[rows[which]], instant)]

    end = c.end_s + 2 * instant * (c.end_s <= c.start_s) if brief_later else c.end_s
    made = made_s(moves, end[turns])
    departures = matched(codes[: cut[0]], moves.departures.priority, made[sends], halves)
    leaves = gone_s(moves, made, end[departures])[moves.parts.sending[arrives]]
    in_turn = stated >= 0
    first, since = np.where(in_turn, stated, moves.arrivals.priority), np.where(in_turn, 0.0, leaves)
    arrivals = matched(codes[cut[0] : cut[1]], first, since, ~reduce & ~hosts & ~halves)
    reduces = matched(codes[cut[1] : cut[2]], moves.reduces.priority, np.zeros(len(moves.reduces.stage)), reduce)
    alone = np.zeros(2 * len(copies.saves))
    copied = matched(codes[cut[2] :], alone, alone, hosts)
    return Spans(turns, departures, arrivals, reduces, *np.split(copied, 2)), findings


def _host_lanes(problem: Problem) -> list[str]:
    """What copies to hosts occupy, device by device, then those back."""
    return [f"{way} host {device}" for way in ("to", "from") for device in range(len(problem.cluster))]


def _copied(problem: Problem, jobs: Jobs, copies: Copies, lanes: int) -> list[Expected]:
    """The spans of copies, to hosts and back. lanes: the first of `_host_lanes` among the resources."""
    device, job = jobs.device[copies.saves], jobs.job[copies.saves]
    row = jobs.stage[job], jobs.kind[job], jobs.micro_batch[copies.saves], device, device
    priority = np.zeros(len(device))
    return [
        Expected(*row, lanes + way * len(problem.cluster) + device, copies.nbytes, copies.seconds, priority)
        for way in (0, 1)
    ]


def made_s(moves: Moves, end_s: Floats) -> Floats:
    """[sendings] s, when all that it carries is made. end_s: of turns."""
    made = np.zeros(len(moves.sendings.bundle))
    np.maximum.at(made, moves.sendings.made_at, end_s[moves.sendings.made_by])
    return made


def gone_s(moves: Moves, made: Floats, end_s: Floats) -> Floats:
    """[sendings] s, when its sender's half, if it has one, is over. end_s: of departures."""
    gone = made.copy()
    gone[moves.sends] = end_s
    return gone


def _lengths(problem: Problem, jobs: Jobs, moves: Moves, turns: Ints, schedule: Schedule) -> list[str]:
    """Turns that take another time than their operators and what they gather, or run on another resource than their
    device."""
    c = schedule.columns
    expected = with_gathers(problem, jobs, moves.rings, compute_s(problem, jobs)) + moves.folded_s
    took = c.end_s[turns] - c.start_s[turns]
    slack = SLACK * expected + ROUNDING * schedule.makespan_s
    findings = [
        f"{schedule.action(int(turns[t]))} takes {took[t]} s on device {jobs.device[t]}, expected {expected[t]} s"
        for t in np.flatnonzero(~(np.abs(took - expected) <= slack))[:10]
    ]
    names = {name: number for number, name in enumerate(schedule.resources)}
    own = ints(names.get(f"device {d}", -1) for d in range(len(problem.cluster)))[jobs.device]
    return findings + [
        f"{schedule.action(int(turns[t]))} occupies {schedule.resources[c.resource[turns[t]]]}, expected device"
        f" {jobs.device[t]}"
        for t in np.flatnonzero(c.resource[turns] != own)[:10]
    ]


def _turns(jobs: Jobs, schedule: Schedule) -> tuple[Ints, list[str]]:
    """The span of every turn, [turns]; or which turns have none or several, and which spans are of no turn."""
    c = schedule.columns
    rows = np.flatnonzero(c.to_device < 0)
    columns = (jobs.stage[jobs.job], jobs.kind[jobs.job], jobs.micro_batch, jobs.device, jobs.operator[jobs.job])
    spans = (c.stage, c.kind, c.micro_batch, c.device, c.operator)
    code = joined([np.concatenate([column, span[rows]]) for column, span in zip(columns, spans, strict=True)])
    wanted, there = code[: len(jobs.job)], code[len(jobs.job) :]
    order, of = np.argsort(wanted, kind="stable"), np.argsort(there, kind="stable")
    if np.array_equal(wanted[order], there[of]):
        turns = np.empty(len(wanted), np.int64)
        turns[order] = rows[of]
        return turns, []
    less, more = unmatched(wanted, there)
    findings = []
    for turn in less[:5].tolist():
        stage, kind, micro_batch, device, operator = (int(column[turn]) for column in columns)
        what = f", operator {operator}," if operator >= 0 else ""
        findings.append(f"{stage}{SPAN_KINDS[kind]}{micro_batch}{what} does not run on device {device}, expected once")
    findings += [
        f"{schedule.action(rows[i])} runs on device {c.device[rows[i]]}, not expected" for i in more[:5].tolist()
    ]
    return wanted, findings


def _columns(expected: Expected) -> tuple[Ints | Floats, ...]:
    e = expected
    return e.stage, e.kind, e.micro_batch, e.device, e.to_device, e.resource, e.nbytes, e.seconds


def _codes(wanted: Sequence[Ints | Floats], resources: Ints, rows: Ints, schedule: Schedule) -> tuple[Ints, Ints]:
    """Equal numbers for transfers that are alike in all but when they are: (of those expected, of the spans)."""
    c = schedule.columns
    *same, resource, nbytes, seconds = wanted
    spans = (c.stage, c.kind, c.micro_batch, c.device, c.to_device)
    code = [np.concatenate([column, span[rows]]) for column, span in zip(same, spans, strict=True)]
    code.append(np.concatenate([resources[resource.astype(np.int64)], c.resource[rows]]))
    took = c.end_s[rows] - c.start_s[rows]
    code.append(clusters(np.concatenate([nbytes, c.nbytes[rows]]), 0.0))
    code.append(clusters(np.concatenate([seconds, took]), ROUNDING * schedule.makespan_s))
    number = joined(code)
    return number[: len(nbytes)], number[len(nbytes) :]


def _differences(
    codes: Ints, there: Ints, wanted: Sequence[Ints | Floats], rows: Ints, moves: Moves, schedule: Schedule
) -> list[str]:
    """Sentences on what is missing and what is not expected."""
    less, more = unmatched(codes, there)
    findings = []
    for i in less[:5].tolist():
        stage, kind, micro_batch, device, to, resource = (int(column[i]) for column in wanted[:6])
        letter = SPAN_KINDS[kind]
        action = f"{stage}{letter}" + ("" if letter in "US" else str(micro_batch))
        findings.append(
            f"{action}>{'' if to == device else to} is missing: expected {wanted[6][i]} bytes in {wanted[7][i]} s from"
            f" device {device} on {moves.resources[resource]}"
        )
    c = schedule.columns
    findings += [
        f"{schedule.action(r)} is not expected: found {c.nbytes[r]} bytes in {c.end_s[r] - c.start_s[r]} s from device"
        f" {c.device[r]} on {schedule.resources[c.resource[r]]}"
        for r in rows[more[:5]].tolist()
    ]
    return findings
