"""Single-sample latency as an integer program (Tarnawski et al., NeurIPS 2020, section 6), and when calls and operators
on CPUs start and end, the calls of an accelerator in a given order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.latency.model import ROUNDING, LatencyModel
from solvers.problem.graph import edges_of, labels_after, topological_order
from solvers.programs.scaled_model import ScaledModel, Term, classes_of, new_numbers


@dataclass(frozen=True, slots=True)
class CallTimes:
    """The earliest times, in some unit.

    call: [operators] accelerator * pieces + piece, or -1 on a CPU. entity: [operators] the call, or the
    number of calls + the operator on a CPU. start, end: [entities]. turn: [calls] a topological number,
    -1 for an empty call.
    """

    call: list[int]
    entity: list[int]
    start: list[float]
    end: list[float]
    turn: list[int]


def times_of(latency: LatencyModel, call: Ints, pieces: int, unit_s: float) -> CallTimes | None:
    """The times of these calls, in units of ``unit_s`` seconds, the pieces of an accelerator in turn;
    None if they wait for each other. (`solvers.latency.latency_kernel` takes the pieces as they become ready.)"""
    graph = latency.problem.graph
    seconds, calls = (latency.calls.seconds / unit_s).tolist(), latency.accelerators * pieces
    at: list[int] = call.tolist()
    entity = [c if c >= 0 else calls + v for v, c in enumerate(at)]
    device = [c // pieces if c >= 0 else -1 for c in at]
    takes = [0.0] * (calls + len(at))
    for v, e in enumerate(entity):
        takes[e] += seconds[device[v]][v]
    for u, readers, message in latency.messages(unit_s):
        if at[u] >= 0 and any(at[r] != at[u] for r in readers):
            takes[at[u]] += message
        for c in {at[r] for r in readers} - {-1, at[u]}:
            takes[c] += message
    after = labels_after(edges_of(graph.successors), entity, len(takes))
    for c in range(calls - 1):
        if (c + 1) % pieces:
            after[c].add(c + 1)
    order = topological_order(after)
    if len(order) < len(takes):
        return None
    start, end = [0.0] * len(takes), [0.0] * len(takes)
    turn = [-1] * calls
    used = set(at)
    for position, e in enumerate(order):
        end[e] = start[e] + takes[e]
        for target in after[e]:
            start[target] = max(start[target], end[e])
        if e in used and e < calls:
            turn[e] = position
    return CallTimes(at, entity, start, end, turn)


CONVEX_VARIABLES = 2000
"""Most variables spent on convex calls. Times imply them (a call cannot wait for its own output), so
they only help branching, and on large graphs the first bound comes sooner without."""


class LatencyProgram(ScaledModel[CallTimes]):
    """The integer program of a latency model with at most ``pieces`` pieces per accelerator.

    Slot ``accelerator * pieces + piece`` is one call; the pieces of an accelerator run in turn.
    ``x[unit][slot]`` and ``on_cpu[unit]`` are 1 where a unit is: a co-location group with one piece per
    accelerator, an operator otherwise (the operators of a group may be in several pieces). done[v]:
    when an operator's output is there; no later than ``most_s``, which the big coefficients rest on.

    Beside the published rows: `_potentials`, interchangeable accelerators (the i-th heaviest group is
    on the first i + 1 of them), and times that no operator can beat, before it and after it. ``check``
    is called often while the rows are written.
    """

    def __init__(
        self, latency: LatencyModel, pieces: int, most_s: float, check: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(most_s)
        self.latency, self.pieces, graph = latency, pieces, latency.problem.graph
        self.most = most_s / self.unit_s
        self.slots = latency.accelerators * pieces
        self.check = check
        self.unit_of = latency.group_of.tolist() if pieces == 1 else list(range(len(graph)))
        self.edges = list(edges_of(graph.successors))
        self.messages = latency.messages(self.unit_s)
        self._crossings: dict[tuple[frozenset[int], frozenset[int], int], int] = {}
        free = set(range(latency.accelerators)) - set(latency.problem.pins.values())
        self.classes = classes_of({d: (float(latency.caps[d]), latency.acc_s[d].tobytes()) for d in sorted(free)})
        self.heaviest = np.argsort(-_group_s(latency), kind="stable").tolist()
        self.last = self.model.variable(0.0, self.most, cost=1.0)
        self.x, self.on_cpu = self._placed()
        self._memory()
        if self.slots * len(graph) <= CONVEX_VARIABLES:
            edges = [(u, v) for v in graph.topological_order for u in graph.predecessors[v]]
            rows = [self.x[unit] for unit in self.unit_of]
            self.convex(rows, edges, lambda times: times.call)
        head, tail = self._heads_and_tails()
        self.done = [self.model.variable(head[v], max(self.most - tail[v], head[v])) for v in range(len(graph))]
        self.start = [self.model.variable(0.0, self.most) for _ in range(self.slots)]
        self.end = [self.model.variable(0.0, self.most) for _ in range(self.slots)]
        self._times(tail)
        self._potentials()

    def at_least(self, bound_s: float) -> None:
        """Tell the solver a lower bound, in seconds."""
        self.model.lower[self.last] = min(bound_s / self.unit_s, self.most)

    def calls_of(self, values: Sequence[float]) -> Ints:
        """The slot of every operator in a solution, -1 on a CPU."""
        call = []
        for unit in self.unit_of:
            slot = max(range(self.slots), key=lambda s: values[self.x[unit][s]], default=-1)
            call.append(slot if slot >= 0 and values[self.x[unit][slot]] > values[self.on_cpu[unit]] else -1)
        return np.array(call, np.int64)

    def renamed(self, call: Ints) -> Ints:
        """The same calls with interchangeable accelerators renumbered as the program wants them."""
        place = np.full(self.latency.groups, -1)
        place[self.latency.group_of] = np.where(call >= 0, call // self.pieces, -1)
        new = new_numbers(place.tolist(), self.heaviest, self.classes)
        moved = [new.get(c // self.pieces, c // self.pieces) * self.pieces + c % self.pieces for c in call.tolist()]
        return np.where(call >= 0, moved, -1)

    def times_of(self, call: Ints) -> CallTimes | None:
        """The times of calls, the pieces of an accelerator in turn; None if they wait for each other."""
        return times_of(self.latency, call, self.pieces, self.unit_s)

    # ---------------------------------------------------------------- rows

    def _placed(self) -> tuple[list[list[int]], list[int]]:
        """Every unit in one slot or on a CPU, the operators of a group on one device."""
        latency, model, pieces = self.latency, self.model, self.pieces
        rank = np.argsort(self.heaviest)
        groups = np.arange(latency.groups) if pieces == 1 else latency.group_of
        allowed = np.repeat(latency.allowed[groups], [pieces] * latency.accelerators + [1], axis=1)
        classes = [[device * pieces + piece for device in alike] for alike in self.classes for piece in range(pieces)]
        placed = self.placed(allowed.tolist(), classes, rank[groups].tolist())
        x, on_cpu = [row[:-1] for row in placed], [row[-1] for row in placed]

        def fill(times: CallTimes, values: list[float]) -> None:
            for v, c in enumerate(times.call):
                values[placed[self.unit_of[v]][c]] = 1.0  # the last place is a CPU, as is -1

        self.on_fill(fill)
        if self.pieces > 1:
            for g in range(latency.groups):
                first, *others = latency.group(g)
                for other in others:
                    for d in range(latency.accelerators):
                        first_terms, other_terms = self._on(x[first], d), self._on(x[other], d)
                        model.row([*first_terms, *((v, -c) for v, c in other_terms)], 0.0, 0.0)
        return x, on_cpu

    def _on(self, row: Sequence[int], device: int) -> list[Term]:
        """1 if the unit with this row of x is on the accelerator."""
        return [(row[s], 1.0) for s in range(device * self.pieces, (device + 1) * self.pieces)]

    def _memory(self) -> None:
        latency, cluster = self.latency, self.latency.problem.cluster
        of_cpus = sum(cluster.devices[d].memory_bytes for d in cluster.cpus)  # any of them may take an operator
        for place, cap in enumerate([*latency.caps[:-1].tolist(), of_cpus * (1 + ROUNDING)]):
            if not latency.group_bytes.sum() > cap > 0:
                continue
            terms = []
            for g, nbytes in enumerate(latency.group_bytes.tolist()):
                unit = self.unit_of[latency.group(g)[0]]
                here = self._on(self.x[unit], place) if place < latency.accelerators else [(self.on_cpu[unit], 1.0)]
                terms += [(v, nbytes / cap) for v, _ in here]
            self.model.row(terms, most=1.0)

    def _times(self, tail: Sequence[float]) -> None:
        """Starts, ends and outputs: a call waits for its inputs, fetches, computes and sends."""
        model, x, unit, pieces = self.model, self.x, self.unit_of, self.pieces
        latency, graph = self.latency, self.latency.problem.graph
        takes: list[list[Term]] = [
            [(x[u][s], c) for u, c in self._unit_seconds(s // pieces).items()] for s in range(self.slots)
        ]
        for u, readers, seconds in self.messages:
            self.check()
            if seconds > 0:
                for s in range(self.slots):
                    fetched, sent = self._crossing(readers, [u], s), self._crossing([u], readers, s)
                    takes[s] += [(v, seconds) for v in (fetched, sent) if v is not None]
        for s in range(self.slots):
            model.row([(self.end[s], 1.0), (self.start[s], -1.0), *((v, -c) for v, c in takes[s])], least=0.0)
            if (s + 1) % pieces:
                model.row([(self.start[s + 1], 1.0), (self.end[s], -1.0)], least=0.0)
            else:
                model.row([(self.last, 1.0), (self.end[s], -1.0)], least=0.0)
        cpu_s = latency.cpu_s / self.unit_s
        for v in range(len(graph)):
            model.row([(self.last, 1.0), (self.done[v], -1.0)], least=tail[v])
            for s in range(self.slots):
                row = [(self.done[v], 1.0), (self.end[s], -1.0), (x[unit[v]][s], -self.most)]
                model.row(row, least=-self.most)
            if not graph.predecessors[v] and math.isfinite(cpu_s[v]):
                model.row([(self.done[v], 1.0), (self.on_cpu[unit[v]], -float(cpu_s[v]))], least=0.0)
        for u, v in self.edges:
            wait = [(self.on_cpu[unit[v]], -float(cpu_s[v]))] if math.isfinite(cpu_s[v]) else []
            model.row([(self.done[v], 1.0), (self.done[u], -1.0), *wait], least=0.0)
        for u in range(len(graph)):
            self.check()
            latest = self.most - tail[u]
            for s in range(self.slots):
                enters = self._crossing(graph.successors[u], [u], s)
                if enters is not None:
                    model.row([(self.start[s], 1.0), (self.done[u], -1.0), (enters, -latest)], least=-latest)

        def fill(times: CallTimes, values: list[float]) -> None:
            values[self.last] = max(times.end)
            for v, entity in enumerate(times.entity):
                values[self.done[v]] = times.end[entity]
            for s in range(self.slots):
                values[self.start[s]], values[self.end[s]] = times.start[s], times.end[s]

        self.on_fill(fill)

    def _unit_seconds(self, device: int) -> dict[int, float]:
        total: dict[int, float] = {}
        for v, seconds in enumerate((self.latency.acc_s[device] / self.unit_s).tolist()):
            if 0 < seconds < math.inf:
                total[self.unit_of[v]] = total.get(self.unit_of[v], 0.0) + seconds
        return total

    def _crossing(self, inside: Iterable[int], outside: Iterable[int], slot: int) -> int | None:
        """A variable that is 1 if one of some operators is in the slot and one of the others is not; None
        if that cannot be."""
        here, there = {self.unit_of[v] for v in inside}, {self.unit_of[v] for v in outside}
        here, there = here - there if len(there) == 1 else here, there - here if len(here) == 1 else there
        if not here or not there:
            return None
        key = frozenset(here), frozenset(there), slot
        if key not in self._crossings:
            result = self._crossings[key] = self.model.variable()
            for a in sorted(here):
                for b in sorted(there - {a}):
                    self.model.row([(result, 1.0), (self.x[a][slot], -1.0), (self.x[b][slot], 1.0)], least=0.0)

            def fill(_: CallTimes, values: list[float]) -> None:
                most = max(values[self.x[a][slot]] for a in here)
                values[result] = max(0.0, most - min(values[self.x[b][slot]] for b in there))

            self.on_fill(fill)
        return self._crossings[key]

    def _potentials(self) -> None:
        """Path lengths that need no big coefficient: along any path every operator takes its time, and
        every message that leaves a call is sent and fetched, as a path visits a call once."""
        model, unit, latency = self.model, self.unit_of, self.latency
        graph = latency.problem.graph
        potential = [model.variable(0.0, self.most) for _ in unit]
        seconds = latency.calls.seconds / self.unit_s
        carried: dict[tuple[int, int], float] = {}
        for u, readers, message_s in self.messages:
            for r in set(readers) if message_s > 0 else ():
                carried[u, r] = carried.get((u, r), 0.0) + message_s
        for v in range(len(graph)):
            self.check()
            work = [(self.on_cpu[unit[v]], -float(seconds[-1, v]))]
            for d in range(latency.accelerators):
                work += [(x, -float(seconds[d, v])) for x, _ in self._on(self.x[unit[v]], d)]
            model.row([(self.last, 1.0), (potential[v], -1.0)], least=0.0)
            model.row([(self.done[v], 1.0), (potential[v], -1.0)], least=0.0)
            if not graph.predecessors[v]:
                model.row([(potential[v], 1.0), *work], least=0.0)
            for u in graph.predecessors[v]:
                pairs = [(u, v), (v, u)] if (u, v) in carried else []
                ends = [self._crossing([a], [b], s) for s in range(self.slots) for a, b in pairs]
                transfers = [(end, -carried[u, v]) for end in ends if end is not None]
                model.row([(potential[v], 1.0), (potential[u], -1.0), *work, *transfers], least=0.0)

        def fill(times: CallTimes, values: list[float]) -> None:
            call = times.call
            for v in graph.topological_order:
                before = 0.0
                for u in graph.predecessors[v]:
                    ends = (call[u] >= 0) + (call[v] >= 0) if call[u] != call[v] else 0
                    before = max(before, values[potential[u]] + ends * carried.get((u, v), 0.0))
                values[potential[v]] = before + float(seconds[call[v] // self.pieces if call[v] >= 0 else -1, v])

        self.on_fill(fill)

    def _heads_and_tails(self) -> tuple[list[float], list[float]]:
        """When an output is there at the earliest, and what must follow it: the operators of a call all
        end with it, so only those that no accelerator takes are sure to come after."""
        latency, graph = self.latency, self.latency.problem.graph
        seconds = np.vstack([latency.acc_s, latency.cpu_s[None, :]]) / self.unit_s
        able = np.asarray(latency.allowed[latency.group_of]).T
        fastest = np.where(able, seconds, np.inf).min(axis=0)
        least = np.where(np.isfinite(fastest), fastest, 0.0).tolist()
        forced = [not any(column[:-1]) for column in able.T.tolist()]
        head, tail = [0.0] * len(graph), [0.0] * len(graph)
        for v in graph.topological_order:
            head[v] = max((head[u] for u in graph.predecessors[v]), default=0.0) + least[v]
        for v in reversed(graph.topological_order):
            tail[v] = max((tail[w] + (least[w] if forced[w] else 0.0) for w in graph.successors[v]), default=0.0)
        return head, tail


def _group_s(latency: LatencyModel) -> Floats:
    """Seconds of every group where accelerators take it, [groups]."""
    seconds = np.where(np.isfinite(latency.acc_s), latency.acc_s, 0.0).max(axis=0, initial=0.0)
    return np.bincount(latency.group_of, seconds, latency.groups).astype(np.float64)
