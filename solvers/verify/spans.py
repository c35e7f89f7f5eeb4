"""Which span of a schedule is which of those that must be there; what is missing, too much, or of a wrong length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from solvers.problem import Problem
from solvers.schedule import SPAN_KINDS, Schedule
from solvers.verify.jobs import Jobs, compute_s
from solvers.verify.ragged import Flags, Floats, Ints, ints
from solvers.verify.transfers import Expected, Moves

SLACK = 1e-6
"""Relative slack of seconds and bytes: sums of many floats in another order."""
INSTANT = 1e-9
"""What counts as the same instant, as a part of the makespan."""


@dataclass(frozen=True, eq=False)
class Spans:
    """Positions of spans in the schedule, for all that must be there."""

    turns: Ints
    """[turns]"""
    departures: Ints
    arrivals: Ints
    reduces: Ints
    made_s: Floats
    """[sendings] when all that it carries is made"""
    gone_s: Floats
    """[sendings] when its sender's half is over"""


def spans_of(problem: Problem, jobs: Jobs, moves: Moves, schedule: Schedule) -> tuple[Spans | None, list[str]]:
    """The spans of all turns and transfers; none if some are missing or too many. Sentences in any case."""
    turns, found = _turns(jobs, schedule)
    if found:
        return None, found
    c, instant = schedule.columns, INSTANT * schedule.makespan_s
    expected = compute_s(problem, jobs) + moves.folded_s
    took = c.end_s[turns] - c.start_s[turns]
    wrong = np.flatnonzero(~(np.abs(took - expected) <= SLACK * expected + 1e-3 * instant))
    found = [
        f"{schedule.action(turns[t])} takes {took[t]} s on device {jobs.device[t]}, expected {expected[t]} s"
        for t in wrong[:10].tolist()
    ]
    names = {name: number for number, name in enumerate(schedule.resources)}
    own = c.resource[turns] != ints(names.get(f"device {d}", -1) for d in range(len(problem.cluster)))[jobs.device]
    found += [
        f"{schedule.action(turns[t])} occupies {schedule.resources[c.resource[turns[t]]]}, expected device"
        f" {jobs.device[t]}"
        for t in np.flatnonzero(own)[:10].tolist()
    ]
    kinds = (moves.departures, moves.arrivals, moves.reduces)
    wanted = [np.concatenate(columns) for columns in zip(*map(_columns, kinds), strict=True)]
    rows = np.flatnonzero(c.to_device >= 0)
    codes, there = _codes(wanted, ints(names.get(name, -1) for name in moves.resources), rows, schedule)
    if not np.array_equal(np.sort(codes), np.sort(there)):
        return None, found + _differences(codes, there, wanted, rows, moves, schedule)
    made = np.zeros(len(moves.crossings.bundle))
    np.maximum.at(made, moves.crossings.made_at, c.end_s[turns[moves.crossings.made_by]])
    sends, arrives = moves.crossings.sends, moves.crossings.arrives
    cut = np.cumsum([len(kind.stage) for kind in kinds])
    reduce = c.kind[rows] == SPAN_KINDS.index("S")
    halves = ~reduce & (c.to_device[rows] == c.device[rows])

    def matched(mine: Ints, expected: Expected, ready_s: Floats, which: Flags) -> Ints:
        return rows[which][_pair(mine, there[which], ready_s, expected.priority, c.start_s[rows[which]], instant)]

    departures = matched(codes[: cut[0]], moves.departures, made[sends], halves)
    gone = made.copy()
    gone[sends] = c.end_s[departures]
    leaves = gone[moves.crossings.sending[arrives]]
    arrivals = matched(codes[cut[0] : cut[1]], moves.arrivals, leaves, ~reduce & ~halves)
    reduces = matched(codes[cut[1] :], moves.reduces, np.zeros(len(moves.reduces.stage)), reduce)
    return Spans(turns, departures, arrivals, reduces, made, gone), found


def _turns(jobs: Jobs, schedule: Schedule) -> tuple[Ints, list[str]]:
    """The span of every turn, [turns]; or which turns have none or several, and which spans are of no turn."""
    c = schedule.columns
    rows = np.flatnonzero(c.to_device < 0)
    columns = (jobs.stage[jobs.job], jobs.kind[jobs.job], jobs.micro_batch, jobs.device, jobs.operator[jobs.job])
    spans = (c.stage, c.kind, c.micro_batch, c.device, c.operator)
    code = joined([np.concatenate([mine, span[rows]]) for mine, span in zip(columns, spans, strict=True)])
    wanted, there = code[: len(jobs.job)], code[len(jobs.job) :]
    order, of = np.argsort(wanted, kind="stable"), np.argsort(there, kind="stable")
    if np.array_equal(wanted[order], there[of]):
        turns = np.empty(len(wanted), np.int64)
        turns[order] = rows[of]
        return turns, []
    less, more = unmatched(wanted, there)
    found = []
    for turn in less[:5].tolist():
        stage, kind, micro_batch, device, operator = (int(column[turn]) for column in columns)
        what = f", operator {operator}," if operator >= 0 else ""
        found.append(f"{stage}{SPAN_KINDS[kind]}{micro_batch}{what} does not run on device {device}, expected once")
    found += [f"{schedule.action(rows[i])} runs on device {c.device[rows[i]]}, not expected" for i in more[:5].tolist()]
    return wanted, found


def _columns(expected: Expected) -> tuple[Ints | Floats, ...]:
    e = expected
    return e.stage, e.kind, e.micro_batch, e.device, e.to_device, e.resource, e.nbytes, e.seconds


def _codes(wanted: Sequence[Ints | Floats], resources: Ints, rows: Ints, schedule: Schedule) -> tuple[Ints, Ints]:
    """Equal numbers for transfers that are alike in all but when they are: (of those expected, of the spans)."""
    c = schedule.columns
    *same, resource, nbytes, seconds = wanted
    spans = (c.stage, c.kind, c.micro_batch, c.device, c.to_device)
    code = [np.concatenate([mine, span[rows]]) for mine, span in zip(same, spans, strict=True)]
    code.append(np.concatenate([resources[resource.astype(np.int64)], c.resource[rows]]))
    took = c.end_s[rows] - c.start_s[rows]
    code.append(_clusters(np.concatenate([nbytes, c.nbytes[rows]]), 0.0))
    code.append(_clusters(np.concatenate([seconds, took]), 1e-3 * INSTANT * schedule.makespan_s))
    number = joined(code)
    return number[: len(nbytes)], number[len(nbytes) :]


def _clusters(values: Floats, slack: float) -> Ints:
    """Numbers for values, the same where they differ by rounding."""
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    apart = ~(np.diff(ascending) <= SLACK * np.abs(ascending[1:]) + slack)
    numbers = np.zeros(len(values), np.int64)
    numbers[order[1:]] = np.cumsum(apart)
    return numbers


def joined(columns: Sequence[Ints]) -> Ints:
    """One number for every row, equal for equal rows."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        if not len(column):
            return code
        low, width = int(column.min()), int(column.max() - column.min()) + 1
        if int(code.max()) + 1 > 2**62 // width:
            code = np.unique(code, return_inverse=True)[1].astype(np.int64)
        code = code * width + (column.astype(np.int64) - low)
    return code


def unmatched(wanted: Ints, there: Ints) -> tuple[Ints, Ints]:
    """Positions in ``wanted`` of what ``there`` lacks, and in ``there`` of what is not wanted."""
    values, number = np.unique(np.concatenate([wanted, there]), return_inverse=True)
    mine, other = number[: len(wanted)], number[len(wanted) :]
    counts = [np.bincount(side, minlength=len(values)) for side in (mine, other)]

    def rest(side: Ints, others: Ints) -> Ints:
        order = np.argsort(side, kind="stable")
        begin = np.searchsorted(side[order], side[order])
        found: Ints = np.sort(order[np.arange(len(side)) - begin >= others[side[order]]])
        return found

    return rest(mine, counts[1]), rest(other, counts[0])


def _differences(
    codes: Ints, there: Ints, wanted: Sequence[Ints | Floats], rows: Ints, moves: Moves, schedule: Schedule
) -> list[str]:
    """Sentences on what is missing and what is not expected."""
    less, more = unmatched(codes, there)
    found = []
    for i in less[:5].tolist():
        stage, kind, micro_batch, device, to, resource = (int(column[i]) for column in wanted[:6])
        letter = SPAN_KINDS[kind]
        action = f"{stage}{letter}" + ("" if letter in "US" else str(micro_batch))
        found.append(
            f"{action}>{'' if to == device else to} is missing: expected {wanted[6][i]} bytes in {wanted[7][i]} s from"
            f" device {device} on {moves.resources[resource]}"
        )
    c = schedule.columns
    found += [
        f"{schedule.action(r)} is not expected: found {c.nbytes[r]} bytes in {c.end_s[r] - c.start_s[r]} s from device"
        f" {c.device[r]} on {schedule.resources[c.resource[r]]}"
        for r in rows[more[:5]].tolist()
    ]
    return found


def _pair(wanted: Ints, there: Ints, ready_s: Floats, priority: Floats, start_s: Floats, instant: float) -> Ints:
    """For all transfers expected the position of their span. Among alike ones, the span that starts first is of the
    one that goes first of those that are ready by then."""
    order = np.lexsort((np.arange(len(wanted)), priority, ready_s, wanted))
    spans = np.lexsort((start_s, there))
    found = np.empty(len(wanted), np.int64)
    found[order] = spans
    code, first = wanted[order], priority[order]
    turned = np.flatnonzero((code[1:] == code[:-1]) & (first[1:] < first[:-1]))
    for low in np.unique(np.searchsorted(code, code[turned])).tolist():  # later ready, yet to go first
        high = int(np.searchsorted(code, code[low], "right"))
        found[_served(order[low:high], ready_s, priority, start_s[spans[low:high]], instant)] = spans[low:high]
    return found


def _served(alike: Ints, ready_s: Floats, priority: Floats, starts_s: Floats, instant: float) -> list[int]:
    """The order in which alike transfers, ascending by when they are ready, are served at ``starts_s``."""
    served: list[int] = []
    waiting: list[tuple[float, int]] = []
    rows, ready, first = alike.tolist(), ready_s[alike].tolist(), priority[alike].tolist()
    upcoming = 0
    for start in starts_s.tolist():
        while upcoming < len(rows) and (ready[upcoming] <= start + instant or not waiting):
            heappush(waiting, (first[upcoming], rows[upcoming]))
            upcoming += 1
        served.append(heappop(waiting)[1])
    return served
