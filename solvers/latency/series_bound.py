"""Bounds on the latency of one sample, from what operators that all others come before or after divide.

Such gates run one after the other, whatever else does. Those in one call follow each other, and what is
between them is in that call too. So a plan is a sequence of gates on CPUs and of calls, and from one to the next the
part between is taken apart (`solvers.latency.series_breaks`); nothing else reaches across a gate. The least
over all sequences whose calls fit the largest accelerator is a bound, and where nothing was left out of
account an optimum. Left out: that calls of one accelerator share its memory and wait for each other; what
messages cost that pass over a gate; memory of calls beside the gates' and on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.latency.model import LatencyModel
from solvers.latency.path_cut_kernel import Order
from solvers.latency.series_breaks import (
    AFTER,
    BEFORE,
    BESIDE,
    FIRST_BYTES,
    SECOND_BYTES,
    SECONDS,
    Breaks,
    Series,
    TooMany,
    Ways,
    series_of,
    undominated,
)

ON_CPU = -1


@dataclass(frozen=True, slots=True)
class SeriesBound:
    """seconds: no plan is shorter. call: [operators], the call that each is in where this is reached, -1 on a CPU;
    calls are numbered as they begin, and need not fit the accelerators there are."""

    seconds: float
    call: Ints


@dataclass(frozen=True, slots=True)
class _Step:
    """The gates ``first`` to ``last`` in one call, or one on a CPU (last ON_CPU), and the way to take the part
    before them apart. back: the step before, -1 for none."""

    first: int
    last: int
    part: tuple[int, bool, bool]
    way: int
    back: int


def series_bound(model: LatencyModel, order: Order, check: Callable[[], None]) -> SeriesBound | None:
    """The bound, for any number of pieces per accelerator.

    None where a graph has no gates, or there are too many ways to take a part apart. Calls ``check`` often.
    """
    series = series_of(model.problem.graph, order)
    if not series.gates:
        return None
    try:
        return _Sequences(model, order, series, check).shortest()
    except TooMany:
        return None


class _Sequences:
    """Sequences of calls and gates on CPUs, gate by gate.

    on_cpu, in_call: [gates], arrays of states in which the gate is on a CPU, or begins a call. A state is (bytes in
    the call, seconds, step)."""

    def __init__(self, model: LatencyModel, order: Order, series: Series, check: Callable[[], None]) -> None:
        self.breaks = breaks = Breaks(model, order, series, check)
        self.model, self.series, self.check, self.cap = model, series, check, order.acc_bytes
        self.ways: dict[tuple[int, bool, bool], Ways] = {}
        inside = [[v for branch in part for v in branch] for part in series.parts]
        self.part_bytes = [float(sum(breaks.nbytes[v] for v in part)) for part in inside]
        self.part_s = [float(sum(breaks.acc_s[v] for v in part)) for part in inside]
        self.steps: list[_Step] = []
        gates = len(series.gates)
        self.on_cpu: list[list[Floats]] = [[] for _ in range(gates)]
        self.in_call: list[list[Floats]] = [[] for _ in range(gates)]
        self.ends: list[Floats] = []

    def shortest(self) -> SeriesBound | None:
        """The least of all sequences; None if there is none."""
        series, breaks = self.series, self.breaks
        self._leave(0, np.array([[0.0, 0.0, -1.0]]), ON_CPU, ON_CPU)
        for gate, operator in enumerate(series.gates):
            self.check()
            for on_cpu in _undominated(self.on_cpu[gate]):
                states = on_cpu.copy()
                states[:, 1] += breaks.cpu_s[operator]
                self._leave(gate + 1, states, gate, ON_CPU)
            for begun in _undominated(self.in_call[gate]):
                states = begun.copy()
                for last in range(gate, len(series.gates)):
                    self.check()
                    if last > gate:
                        states[:, 0] += self.part_bytes[last]
                        states[:, 1] += self.part_s[last]
                    states[:, 0] += breaks.nbytes[series.gates[last]]
                    states[:, 1] += breaks.acc_s[series.gates[last]]
                    states = states[(states[:, 0] <= self.cap) & np.isfinite(states[:, 1])]
                    if not len(states):
                        break
                    self._leave(last + 1, states, gate, last)
        ends = np.concatenate(self.ends) if self.ends else np.zeros((0, 3))
        if not len(ends) or not np.isfinite(ends[:, 1]).any():
            return None
        best = ends[ends[:, 1].argmin()]
        return SeriesBound(float(best[1]), self._calls(int(best[2])))

    def _leave(self, part: int, states: Floats, first: int, last: int) -> None:
        """Go from these states, after the gates first to last, through a part to the gate behind it."""
        gates = len(self.series.gates)
        for second_in_call in (False, True) if part < gates else (False,):
            key = (part, last != ON_CPU, second_in_call)
            if key not in self.ways:
                self.ways[key] = self.breaks.ways(*key)
            rows = self.ways[key].rows
            i, j = np.divmod(np.arange(len(states) * len(rows)), max(1, len(rows)))
            reached = np.stack(
                [rows[j, SECOND_BYTES], states[i, 1] + rows[j, SECONDS], np.arange(len(i), dtype=np.float64)], axis=1
            )
            reached = reached[(states[i, 0] + rows[j, FIRST_BYTES] <= self.cap) & np.isfinite(reached[:, 1])]
            reached = reached[undominated(reached[:, :2])]
            for row in reached:
                k = int(row[2])
                row[2] = len(self.steps)
                self.steps.append(_Step(first, last, key, int(j[k]), int(states[i[k], 2])))
            target = self.ends if part == gates else (self.in_call if second_in_call else self.on_cpu)[part]
            target.append(reached)

    def _calls(self, step: int) -> Ints:
        """The call of every operator, -1 on a CPU, along the steps that end with this one."""
        call = np.full(len(self.model.group_of), -1, np.int64)
        taken: list[_Step] = []
        while step >= 0:
            taken.append(self.steps[step])
            step = self.steps[step].back
        number, here = 0, -1
        for at in reversed(taken):
            if at.last != ON_CPU:
                for gate in range(at.first, at.last + 1):
                    call[self.series.gates[gate]] = here
                    for branch in self.series.parts[gate] if gate > at.first else ():
                        call[list(branch)] = here
            following = number if at.part[2] else -1
            number = self._take_apart(at, call, here, following, number + at.part[2])
            here = following
        return call

    def _take_apart(self, at: _Step, call: Ints, before: int, after: int, number: int) -> int:
        """Fill in the calls of a part's operators, ``number`` the next one that is free; the next free one then."""
        part = at.part[0]
        ways, gates = self.ways[at.part], self.series.gates
        first = gates[part - 1] if part > 0 else -1
        second = gates[part] if part < len(gates) else -1
        labels = ways.labels[at.way].tolist()
        for branch in self.series.parts[part]:
            label = dict(zip(branch, labels, strict=False))
            labels = labels[len(branch) :]
            for v, where in label.items():
                call[v] = {BEFORE: before, BESIDE: -1, AFTER: after}[where]
            own = {v for v, calls in self.breaks.places_beside(branch, label, first, second).items() if calls}
            while own:
                todo = [own.pop()]
                while todo:
                    v = todo.pop()
                    call[v] = number
                    near = own.intersection((*self.breaks.before[v], *self.breaks.after[v]))
                    own -= near
                    todo += near
                number += 1
        return number


def _undominated(several: list[Floats]) -> list[Floats]:
    """The undominated states among these, as one array or none."""
    if not several:
        return []
    states = np.concatenate(several)
    return [states[undominated(states[:, :2])]] if len(states) else []
