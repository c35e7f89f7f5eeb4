"""Rows that are alike: numbers for them, what one side lacks of them, and which of them is which."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from solvers.kernels.arrays import Floats, Ints

SLACK = 1e-6
"""Relative slack of seconds and bytes: sums of many floats in another order."""
INSTANT = 1e-9
"""What counts as the same instant, as a part of the makespan."""
ROUNDING = 1e-12
"""What the difference of two times may be off, as a part of the makespan."""


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


def clusters(values: Floats, slack: float) -> Ints:
    """Numbers for values, the same where they differ by rounding."""
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    differs = ~(np.diff(ascending) <= SLACK * np.abs(ascending[1:]) + slack)
    numbers = np.zeros(len(values), np.int64)
    numbers[order[1:]] = np.cumsum(differs)
    return numbers


def unmatched(wanted: Ints, there: Ints) -> tuple[Ints, Ints]:
    """Positions in ``wanted`` of what ``there`` lacks, and in ``there`` of what is not wanted."""
    values, number = np.unique(np.concatenate([wanted, there]), return_inverse=True)
    expected, other = number[: len(wanted)], number[len(wanted) :]
    counts = [np.bincount(side, minlength=len(values)) for side in (expected, other)]

    def rest(side: Ints, others: Ints) -> Ints:
        order = np.argsort(side, kind="stable")
        begin = np.searchsorted(side[order], side[order])
        positions: Ints = np.sort(order[np.arange(len(side)) - begin >= others[side[order]]])
        return positions

    return rest(expected, counts[1]), rest(other, counts[0])


def paired(wanted: Ints, there: Ints, ready_s: Floats, priority: Floats, start_s: Floats, instant: float) -> Ints:
    """For all transfers expected the position of their span. Among alike ones, the span that starts first is of the
    one that goes first of those that are ready by then."""
    order = np.lexsort((np.arange(len(wanted)), priority, ready_s, wanted))
    spans = np.lexsort((start_s, there))
    pairs = np.empty(len(wanted), np.int64)
    pairs[order] = spans
    code, first = wanted[order], priority[order]
    turned = np.flatnonzero((code[1:] == code[:-1]) & (first[1:] < first[:-1]))
    for low in np.unique(np.searchsorted(code, code[turned])).tolist():  # later ready, yet to go first
        high = int(np.searchsorted(code, code[low], "right"))
        pairs[_served(order[low:high], ready_s, priority, start_s[spans[low:high]], instant)] = spans[low:high]
    return pairs


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
