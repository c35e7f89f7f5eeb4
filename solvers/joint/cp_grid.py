"""One pass as `solvers.joint.cp_program` takes it: in whole units of time, rounded down, operators or clusters.

Why the least makespan of that program is a bound. Take any plan with a device per operator, and the schedule
that `solvers.simulate` makes of it. Round every start down to whole units, and every duration. What starts
after another's end still does (the floor of a sum is at least the sum of the floors), so tensors are still
read after they are made and moved, and what excludes each other on a device, a link or a lane still does. So
the rounded schedule satisfies every constraint of the program, and its makespan in units is at most the
rounded makespan of the plan. The memory that the program counts is held at one moment in every schedule.

The other way round does not hold: in the program a link may idle until an urgent message comes, and serve in any
order, while in the simulator it never idles and serves the message whose reader comes first. Memory
may vary with the schedule, too. So a solution is judged as the plan with the same devices and sequences, and is
proved best only if what is judged meets the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.evaluate import MEMORY_SLACK
from solvers.graph import BACKWARD_PHASES, Phase
from solvers.joint.model import PassModel
from solvers.joint.simulator import Simulator

Ints = NDArray[np.int64]

BITS = 36
"""Units in the longest makespan of interest, as a power of two: an operator loses 1e-11 of it by rounding."""

MEMORY_SCALE = 1 << 40
"""Units in the memory of a device."""

MOMENTS = 3
"""How many moments are looked at at which saved activations are held together."""


@dataclass(frozen=True, eq=False)
class Tasks:
    """Operators of a pass, or clusters of them, as tasks of a constraint program.

    members: operators of every task, each in the order in which they run; an operator is in one task. What
    groups of operators share a device do so with all groups that share a task with them.
    """

    model: PassModel
    members: tuple[tuple[int, ...], ...]

    @cached_property
    def task_of(self) -> Ints:
        """The task of every operator."""
        task = np.zeros(self.model.operators, np.int64)
        for number, operators in enumerate(self.members):
            task[list(operators)] = number
        return task

    @cached_property
    def group_of(self) -> Ints:
        """The group of every task: tasks that share a device."""
        return self.joined[self.model.group_of[[operators[0] for operators in self.members]]]

    @cached_property
    def joined(self) -> Ints:
        """The group of tasks that every group of the model is in, numbered by its first."""
        root = list(range(len(self.model.groups)))

        def find(g: int) -> int:
            while root[g] != g:
                root[g] = root[root[g]]
                g = root[g]
            return g

        for operators in self.members:
            first = find(int(self.model.group_of[operators[0]]))
            for operator in operators[1:]:
                other = find(int(self.model.group_of[operator]))
                first, other = min(first, other), max(first, other)
                root[other] = first
        number: dict[int, int] = {}
        return np.array([number.setdefault(find(g), len(number)) for g in range(len(root))], np.int64)

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """[groups of tasks, devices]."""
        able = np.ones((int(self.joined.max()) + 1, self.model.devices), bool)
        for group, row in zip(self.joined.tolist(), self.model.allowed, strict=True):
            able[group] &= row
        return able

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """Pairs of tasks, the second after the first."""
        task = self.task_of.tolist()
        pairs = {(task[u], task[v]) for u, targets in enumerate(self.model.successors) for v in targets}
        return sorted((u, v) for u, v in pairs if u != v)

    @cached_property
    def messages(self) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """(number in the model, producing tasks, reading tasks) of all messages that may have to travel."""
        found = []
        for number, message in enumerate(self.model.messages):
            producers = tuple(sorted({int(self.task_of[p]) for p in message.producers}))
            readers = tuple(sorted({int(self.task_of[r]) for r in message.readers}))
            ends = {int(self.group_of[t]) for t in (*producers, *readers)}
            if message.tensors and len(ends) > 1:
                found.append((number, producers, readers))
        return found

    def place_of(self, place: Sequence[int]) -> Ints:
        """The device of every group of the model, from that of every group of tasks."""
        return np.asarray(place, np.int64)[self.joined]

    def sequences(self, place: Sequence[int], start: Sequence[int]) -> list[list[int]]:
        """Operators per device, by the start of their tasks; of tasks that start at once, in topological order."""
        rank = {operator: k for k, operator in enumerate(self.model.order)}
        by_start = sorted(range(len(self.members)), key=lambda t: (start[t], rank[self.members[t][0]]))
        sequences: list[list[int]] = [[] for _ in range(self.model.devices)]
        for task in by_start:
            sequences[place[int(self.group_of[task])]].extend(self.members[task])
        return sequences


def operators_of(model: PassModel) -> Tasks:
    """Every operator by itself."""
    return Tasks(model, tuple((operator,) for operator in range(model.operators)))


def unit_for(longest_s: float) -> float:
    """Seconds in a unit: a power of two, so that dividing by it is exact."""
    return math.ldexp(1.0, math.frexp(longest_s)[1] - BITS)


def payload_of(tasks: Tasks, *, least_s: float, most_s: float) -> dict[str, Any]:
    """What `cp_program.run` takes, but for how to search; ``unit_s`` besides.

    least_s, most_s: bounds on the least makespan; most_s > 0.
    """
    model, arrays = tasks.model, tasks.model.arrays
    unit_s = unit_for(most_s)

    def whole(seconds: float) -> int | None:
        return math.floor(seconds / unit_s) if math.isfinite(seconds) else None

    seconds = [model.seconds[list(operators)].sum(axis=0) for operators in tasks.members]
    devices = range(model.devices)
    return {
        "unit_s": unit_s,
        "seconds": [[whole(s) for s in row.tolist()] for row in seconds],
        "group_of": tasks.group_of.tolist(),
        "edges": tasks.edges,
        "messages": [
            (producers, readers, [[whole(model.transfer_s(number, a, b)) for b in devices] for a in devices])
            for number, producers, readers in tasks.messages
        ],
        "leave": arrays.leave.tolist(),
        "arrive": arrays.arrive.tolist(),
        "resources": int(arrays.resources),
        "one_by_one": arrays.one_by_one.tolist(),
        "rows": _rows(tasks),
        "alike": [list(devices) for devices in alike(model)],
        "allowed": tasks.allowed.tolist(),
        "least": math.floor(least_s / unit_s),
        "most": math.ceil(most_s / unit_s),
    }


def alike(model: PassModel) -> list[tuple[int, ...]]:
    """Lists of devices any two of which can be exchanged, and nothing changes."""
    classes: list[list[int]] = []
    for d in range(model.devices):
        for devices in classes:
            if _exchangeable(model, devices[0], d):
                devices.append(d)
                break
        else:
            classes.append([d])
    return [tuple(devices) for devices in classes if len(devices) > 1]


def _exchangeable(model: PassModel, a: int, b: int) -> bool:
    arrays = model.arrays
    own = (model.seconds.T, model.allowed.T, arrays.memory_bytes, arrays.one_by_one)
    if not all(np.array_equal(values[a], values[b]) for values in own):
        return False
    swap = np.arange(model.devices)
    swap[[a, b]] = b, a
    both = np.ix_(swap, swap)
    if not all(np.array_equal(values, values[both]) for values in (arrays.latency_s, arrays.per_byte_s)):
        return False
    # Resources may change names, if each does so everywhere.
    before = [*arrays.leave.tolist(), *arrays.arrive.ravel().tolist()]
    after = [*arrays.leave[swap].tolist(), *arrays.arrive[both].ravel().tolist()]
    renamed, back = dict(zip(before, after, strict=True)), dict(zip(after, before, strict=True))
    devices = {d: int(swap[d]) for d in range(model.devices)}
    return (
        all(renamed[x] == y and back[y] == x for x, y in zip(before, after, strict=True))
        and renamed.get(-1, -1) == -1
        and all(renamed.get(d, y) == y for d, y in devices.items())
    )


def _rows(tasks: Tasks) -> list[tuple[list[int], list[int | None]]]:
    """What a device holds at once, and how much it can: always, and at some moments."""
    model = tasks.model
    cap = model.arrays.memory_bytes * (1 + MEMORY_SLACK)
    finite = cap[np.isfinite(cap)]
    if len(finite) == 0:
        return []
    unit = float(finite.max()) / MEMORY_SCALE
    caps = [math.floor(c / unit) if math.isfinite(c) else None for c in cap.tolist()]
    held = [model.static_bytes + extra for extra in (np.zeros(len(model.groups)), *_moments(model))]
    return [(np.floor(np.bincount(tasks.joined, h) / unit).astype(np.int64).tolist(), caps) for h in held]


def _moments(model: PassModel) -> list[NDArray[np.float64]]:
    """Saved activations of every group that are all held when some operator runs, whatever the plan.

    Those of a forward operator that has ended, or is that operator, are held until its last backward did.
    An operator that may take no time gives no such moment.
    """
    problem, saved = model.problem, model.arrays.saved_bytes
    if problem.recompute or not saved.any():
        return []
    operators = problem.graph.operators
    before = np.eye(model.operators, dtype=bool)
    for v in model.order:
        for u in model.predecessors[v]:
            before[v] |= before[u]
    backward = np.zeros((model.operators, model.operators), bool)  # [forward operator, what its mirrors run after]
    for position, operator in enumerate(operators):
        if operator.forward_of is not None and operator.phase in BACKWARD_PHASES:
            backward[operator.forward_of] |= before[position]
    forward = np.array([o.phase is Phase.FORWARD for o in operators])
    held = before.T & backward & forward[:, None]  # [forward operator, while which operator]
    held[:, model.seconds.min(axis=1) <= 0] = False
    total = saved @ held
    found: dict[bytes, NDArray[np.float64]] = {}
    for moment in np.argsort(-total, kind="stable").tolist():
        if len(found) < MOMENTS and total[moment] > 0:
            found.setdefault(
                held[:, moment].tobytes(), np.bincount(model.group_of, saved * held[:, moment], len(model.groups))
            )
    return list(found.values())


def start_of(tasks: Tasks, payload: dict[str, Any], simulator: Simulator, place: Ints) -> dict[str, Any]:
    """The last simulation of a placement, operator by operator, as a solution of the program.

    Rounding down keeps what the floating-point times kept: units are powers of two, and rounding is monotone.
    """
    state, unit_s = simulator.state, payload["unit_s"]
    number = {message: k for k, (message, _, _) in enumerate(tasks.messages)}
    starts = np.floor(state.start_s / unit_s)
    count = tasks.model.operators
    task = [int(starts[operators[0]]) for operators in tasks.members]
    send, leave = [], []
    for t in range(count, int(state.counts[0])):
        message, src, dst = number[int(state.message[t])], int(state.device[t]), int(state.target[t])
        if src != dst:
            send.append((message, src, dst, int(starts[t])))
        else:
            there = {int(place[g]) for g in tasks.model.group_of[list(tasks.model.messages[state.message[t]].readers)]}
            lasts = max(payload["messages"][message][2][src][d] for d in there - {src})
            leave.append((message, src, int(starts[t]), lasts))
    ends = [begin + payload["seconds"][t][place[tasks.group_of[t]]] for t, begin in enumerate(task)]
    return {"place": place.tolist(), "task": task, "send": send, "leave": leave, "makespan": max(ends)}
