"""A graph as gates, operators that all others come before or after, and what it costs to go from one gate of such a
series to the next if they are not in one call.

Some operators between them (a downset) are in the first gate's call, some (an upset) in the second one's, the
rest on CPUs or in calls of their own, which hold nothing of other parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.latency.model import LatencyModel
from solvers.latency.path_cut_kernel import Order
from solvers.latency.undominated_kernel import first_undominated
from solvers.problem.graph import OpGraph

Branch = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """gates: operators that every other one comes before or after, in their order. parts: [gates + 1], the operators
    before the first gate, between every two, and after the last, as branches: connected pieces in topological
    order, between which nothing is sent."""

    gates: tuple[int, ...]
    parts: tuple[tuple[Branch, ...], ...]


def series_of(graph: OpGraph, order: Order) -> Series:
    """The series of a graph; without gates, one part."""
    count = len(graph)
    compared = (order.above | order.below).sum(axis=1)
    gates = np.flatnonzero(compared == count - 1)
    gates = gates[np.argsort(order.above[gates].sum(axis=1), kind="stable")]
    part = order.above[:, gates].sum(axis=1)  # how many gates come before
    is_gate = np.isin(np.arange(count), gates)
    inside: list[list[int]] = [[] for _ in range(len(gates) + 1)]
    for v in graph.topological_order:
        if not is_gate[v]:
            inside[part[v]].append(v)
    return Series(tuple(gates.tolist()), tuple(_branches(graph, operators) for operators in inside))


def _branches(graph: OpGraph, operators: list[int]) -> tuple[Branch, ...]:
    """Connected pieces, each in the given order."""
    left = set(operators)
    branches: list[Branch] = []
    for first in operators:
        if first not in left:
            continue
        left.discard(first)
        branch, todo = {first}, [first]
        while todo:
            v = todo.pop()
            for other in (*graph.predecessors[v], *graph.successors[v]):
                if other in left:
                    left.discard(other)
                    branch.add(other)
                    todo.append(other)
        branches.append(tuple(v for v in operators if v in branch))
    return tuple(branches)


BEFORE, BESIDE, AFTER = 0, 1, 2
"""Where an operator of a part is: in the first gate's call, in neither, in the second gate's."""
MOST_WAYS = 4000
"""Ways to take one branch apart that are still looked at."""
MOST_PAIRS = 4_000_000
"""Ways of some branches with those of one more that are still looked at."""
MOST_SHARED = 3
"""Messages of a gate that are paid for; others cost nothing here."""

FIRST_BYTES, SECOND_BYTES, SECONDS, REST = range(4)
"""Columns of ways: bytes in the first and the second gate's call; seconds of compute and messages of these calls;
seconds of what is in neither (at the end: 0, and part of the others)."""

Message = tuple[tuple[int, ...], float]
"""Readers, and seconds."""
Used = tuple[tuple[bool, bool], ...]
"""Whether each of a gate's messages is read outside its call, and in the next gate's."""


class TooMany(Exception):
    """There are too many ways to take a part apart."""


@dataclass(frozen=True, slots=True)
class Ways:
    """Undominated ways to take a part apart. rows: [ways, 4], labels: [ways, operators of the part in the order of
    its branches]."""

    rows: Floats
    labels: Ints


class Breaks:
    """Ways to take apart the parts of a series, of which each gate's call may hold ``cap`` bytes."""

    def __init__(self, model: LatencyModel, order: Order, series: Series, check: Callable[[], None]) -> None:
        self.series, self.check, self.cap = series, check, order.acc_bytes
        graph = model.problem.graph
        self.before, self.after = graph.predecessors, graph.successors
        self.acc_s = np.where(order.can_run[model.group_of], order.acc_s, np.inf).tolist()
        self.cpu_s: list[float] = order.cpu_s.tolist()
        # A device holds the whole group of any operator that it has: it counts with one of them.
        self.nbytes = np.zeros(len(graph))
        _, first = np.unique(model.group_of, return_index=True)
        self.nbytes[first] = model.group_bytes[model.group_of[first]]
        self.sent: list[list[Message]] = [[] for _ in range(len(graph))]
        for v, readers, seconds in model.messages():
            if readers and seconds > 0:
                self.sent[v].append((tuple(readers), seconds))

    def ways(self, part: int, first_in_call: bool, second_in_call: bool) -> Ways:
        """All undominated ways if the gates before and after are in calls; else they are on CPUs, or there is none.

        Raises TooMany.
        """
        gates, branches = self.series.gates, self.series.parts[part]
        first = gates[part - 1] if part > 0 else -1
        second = gates[part] if part < len(gates) else -1
        shared = sorted(self.sent[first], key=lambda message: -message[1])[:MOST_SHARED] if first >= 0 else []
        none = tuple((False, False) for _ in shared)
        by_use = {none: Ways(np.zeros((1, 4)), np.zeros((1, 0), np.int8))}
        for branch in branches:
            sides: dict[Used, tuple[list[tuple[float, ...]], list[tuple[int, ...]]]] = {}
            for label in self._labels(branch, BEFORE if first_in_call else BESIDE, AFTER if second_in_call else BESIDE):
                row = self._row(branch, label, first, second, second_in_call)
                if max(row[FIRST_BYTES], row[SECOND_BYTES]) > self.cap:
                    continue
                used = tuple(
                    (any(label.get(r, BEFORE) != BEFORE for r in readers), any(label.get(r) == AFTER for r in readers))
                    for readers, _ in shared
                )
                rows, labels = sides.setdefault(used, ([], []))
                rows.append(row)
                labels.append(tuple(label[v] for v in branch))
            several = {
                used: _front(np.array(rows), np.array(labels, np.int8)) for used, (rows, labels) in sides.items()
            }
            by_use = self._joined(by_use, several)
        return self._paid(part, by_use, shared, first_in_call, second, second_in_call)

    def _paid(
        self, part: int, by_use: dict[Used, Ways], shared: list[Message], first_in_call: bool, second: int,
        second_in_call: bool,
    ) -> Ways:  # fmt: skip
        """All of these ways, with what the gate's messages cost."""
        branches = self.series.parts[part]
        inside = {v for branch in branches for v in branch}
        rows, labels = [], []
        for used, ways in by_use.items():
            extra = 0.0
            for (outside, fetched), (readers, seconds) in zip(used, shared, strict=True):
                beyond = any(r not in inside for r in readers)
                extra += seconds * (first_in_call and (outside or beyond))
                extra += seconds * (second_in_call and (fetched or second in readers))
            row = ways.rows.copy()
            row[:, SECONDS] += row[:, REST] + extra
            row[:, REST] = 0.0
            rows.append(row)
            labels.append(ways.labels)
        if not rows:
            return Ways(np.zeros((0, 4)), np.zeros((0, len(inside)), np.int8))
        return _front(np.concatenate(rows), np.concatenate(labels))

    def _labels(self, branch: Branch, least: int, most: int) -> Iterator[dict[int, int]]:
        """Labels that do not fall along tensors."""
        label: dict[int, int] = {}
        count = 0

        def fill(i: int) -> Iterator[dict[int, int]]:
            nonlocal count
            if i == len(branch):
                count += 1
                if count > MOST_WAYS:
                    raise TooMany
                yield label
                return
            v = branch[i]
            for where in range(max((label[u] for u in self.before[v] if u in label), default=least), most + 1):
                if where == BESIDE or self.acc_s[v] < np.inf:
                    label[v] = where
                    yield from fill(i + 1)
            label.pop(v, None)

        self.check()
        return fill(0)

    def _row(
        self, branch: Branch, label: dict[int, int], first: int, second: int, second_in_call: bool
    ) -> tuple[float, ...]:
        """The columns of one way to take one branch apart, without the first gate's messages."""
        held = [sum(self.nbytes[v] for v in branch if label[v] == where) for where in (BEFORE, AFTER)]
        seconds = 0.0
        for v in branch:
            if label[v] != BESIDE:
                seconds += self.acc_s[v]
            for readers, message_s in self.sent[v]:
                if label[v] == BEFORE and any(label.get(r) != BEFORE for r in readers):
                    seconds += message_s
                fetched = any(label.get(r) == AFTER or (second_in_call and r == second) for r in readers)
                if label[v] != AFTER and fetched:
                    seconds += message_s
        return held[0], held[1], seconds, self.beside(branch, label, first, second)[0]

    def beside(
        self, branch: Branch, label: dict[int, int], first: int, second: int
    ) -> tuple[float, dict[int, tuple[float, float]]]:
        """(the longest path through what is in neither gate's call, seconds; when each of these operators ends at
        the earliest on a CPU, and in a call).

        Along a path every operator takes its time, and every call fetches what enters it and sends what leaves it.
        """
        ends: dict[int, tuple[float, float]] = {}
        last = 0.0
        for v in branch:
            if label[v] != BESIDE:
                continue
            on_cpu, in_call = 0.0, 0.0
            for u in self.before[v]:
                if u not in label and u != first:
                    continue
                sent_s = self._carried_s(u, v)
                if u not in ends:  # in the first gate's call, or that gate
                    in_call = max(in_call, sent_s)
                    continue
                cpu, call = ends[u]
                on_cpu = max(on_cpu, min(cpu, call + sent_s))
                in_call = max(in_call, min(call, cpu + sent_s))
            on_cpu, in_call = on_cpu + self.cpu_s[v], in_call + self.acc_s[v]
            ends[v] = on_cpu, in_call
            last = max(last, min(on_cpu, in_call + self._leaving_s(v, label, second)))
        return last, ends

    def places_beside(self, branch: Branch, label: dict[int, int], first: int, second: int) -> dict[int, bool]:
        """Whether each operator that is in neither gate's call is in one of its own, else on a CPU, where `beside`
        is reached; of operators with several readers, what the last of these asks for."""
        _, ends = self.beside(branch, label, first, second)
        calls: dict[int, bool] = {}
        for v in reversed(ends):
            if v not in calls:
                calls[v] = ends[v][1] + self._leaving_s(v, label, second) < ends[v][0]
            for u in self.before[v]:
                if u in ends and u not in calls:
                    on_cpu, in_call = ends[u]
                    sent_s = self._carried_s(u, v)
                    calls[u] = in_call < on_cpu + sent_s if calls[v] else in_call + sent_s < on_cpu
        return calls

    def _carried_s(self, u: int, v: int) -> float:
        """The longest message from u to v."""
        return max((seconds for readers, seconds in self.sent[u] if v in readers), default=0.0)

    def _leaving_s(self, v: int, label: dict[int, int], second: int) -> float:
        """The longest message of v that is for the second gate or its call."""
        return max(
            (s for readers, s in self.sent[v] if any(r == second or label.get(r) == AFTER for r in readers)),
            default=0.0,
        )

    def _joined(self, by_use: dict[Used, Ways], more: dict[Used, Ways]) -> dict[Used, Ways]:
        """Ways for the branches so far and one more."""
        joined: dict[Used, list[Ways]] = {}
        for used, some in by_use.items():
            for others_used, others in more.items():
                self.check()
                pairs = len(some.rows) * len(others.rows)
                if pairs > MOST_PAIRS:
                    raise TooMany
                i, j = np.divmod(np.arange(pairs), len(others.rows))
                rows = some.rows[i] + others.rows[j]
                rows[:, REST] = np.maximum(some.rows[i, REST], others.rows[j, REST])
                fits = np.flatnonzero((rows[:, : SECOND_BYTES + 1] <= self.cap).all(axis=1))
                front = fits[undominated(rows[fits])]
                both = tuple((a or c, b or d) for (a, b), (c, d) in zip(used, others_used, strict=True))
                labels = np.concatenate([some.labels[i[front]], others.labels[j[front]]], axis=1)
                joined.setdefault(both, []).append(Ways(rows[front], labels))
        return {
            both: _front(np.concatenate([w.rows for w in several]), np.concatenate([w.labels for w in several]))
            for both, several in joined.items()
        }


def _front(rows: Floats, labels: Ints) -> Ways:
    front = undominated(rows)
    return Ways(rows[front], labels[front])


def undominated(rows: Floats) -> Ints:
    """Numbers of the rows than which no other is as low in all columns; of equal ones, the first."""
    order = np.lexsort(rows.T[::-1])
    return np.asarray(order[first_undominated(rows[order])])
