"""One pass as `solvers.joint.exact.cp_program` takes it: in whole units of time, rounded down, operators or clusters.

Why the least makespan of that program is a bound. Take any plan with a device per operator, and the schedule
that `solvers.evaluation.simulation` makes of it. Round every start down to whole units, and every duration. What starts
after another's end still does (the floor of a sum is at least the sum of the floors), so tensors are still
read after they are made and moved, and what excludes each other on a device, a link or a lane still does. So
the rounded schedule satisfies every constraint of the program, and its makespan in units is at most the
rounded makespan of the plan. The memory that the program counts is held at one moment in every schedule.

That holds whichever order links serve, so it is a bound of plans that state an order of messages, too. The other
way round: a solution is the plan with the same devices, sequences and order on every link, each thing as early as that
allows. Its makespan is that of the solution, but for rounding. Only memory may vary with the schedule in a way that
the program does not know, and between lanes (not links) nothing states an order. So a solution is judged as that plan,
and is proved best only if what is judged meets the bound.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.evaluation.evaluate import MEMORY_SLACK
from solvers.joint.exact.cluster_schedule import Timed, leaving
from solvers.joint.passes.clusters import Clusters, longest_before
from solvers.joint.passes.model import PassModel
from solvers.problem.graph import BACKWARD_PHASES, Phase

BITS = 36
"""Units in the longest makespan of interest, as a power of two: an operator loses 1e-11 of it by rounding."""

MEMORY_SCALE = 1 << 40
"""Units in the memory of a device."""

MOMENTS = 3
"""How many moments are looked at at which saved activations are held together."""


def unit_for(longest_s: float) -> float:
    """Seconds in a unit: a power of two, so that dividing by it is exact."""
    return math.ldexp(1.0, math.frexp(longest_s)[1] - BITS)


def payload_of(clusters: Clusters, *, least_s: float, most_s: float) -> dict[str, Any]:
    """What `cp_program.run` takes, but for how to search; ``unit_s`` besides. Tasks are clusters, and groups units.

    least_s, most_s: bounds on the least makespan; most_s > 0.
    """
    wiring = clusters.model.arrays.wiring
    unit_s = unit_for(most_s)

    def whole(seconds: NDArray[np.float64]) -> list[list[int | None]]:
        return [[math.floor(s / unit_s) if math.isfinite(s) else None for s in row] for row in seconds.tolist()]

    seconds = whole(clusters.seconds)
    able = [
        [t for t, a in zip(row, allowed, strict=True) if a and t is not None]
        for row, allowed in zip(seconds, clusters.allowed[clusters.unit_of].tolist(), strict=True)
    ]
    least = [min(times, default=0) for times in able]
    return {
        "unit_s": unit_s,
        "seconds": seconds,
        "group_of": clusters.unit_of.tolist(),
        "edges": [(u, v) for u, targets in enumerate(clusters.successors) for v in targets],
        "messages": [(t.producers, t.readers, whole(t.seconds)) for t in clusters.transfers],
        "leave": wiring.leave.tolist(),
        "arrive": wiring.arrive.tolist(),
        "resources": int(wiring.resources),
        "one_by_one": wiring.one_by_one.tolist(),
        "rows": _rows(clusters),
        "alike": [list(devices) for devices in alike(clusters.model)],
        "allowed": clusters.allowed.tolist(),
        "heaviest": np.argsort(-np.bincount(clusters.unit_of, least, clusters.units), kind="stable").tolist(),
        "head": longest_before(clusters.predecessors, least),
        "tail": longest_before(clusters.successors, least, back=True),
        "least": math.floor(least_s / unit_s),
        "most": math.ceil(most_s / unit_s),
    }


def in_units(clusters: Clusters, payload: dict[str, Any], schedule: Timed) -> dict[str, Any]:
    """A schedule rounded down to units, as `cp_program.run` takes a start.

    That is a solution of the program: units are powers of two, and the rounding of floating-point sums is monotone,
    so what followed something still does.
    """

    unit_s: float = payload["unit_s"]

    def floor(seconds: float) -> int:
        return math.floor(seconds / unit_s)

    device = [schedule.place[unit] for unit in clusters.unit_of.tolist()]
    task = [floor(start) for start in schedule.start_s]
    leave = []
    for (number, source), start in schedule.left_s.items():
        transfer = clusters.transfers[number]
        lasts = leaving(transfer.seconds, source, (device[r] for r in transfer.readers))
        leave.append((number, source, floor(start), floor(lasts)))
    ends = [begin + payload["seconds"][t][d] for t, (begin, d) in enumerate(zip(task, device, strict=True))]
    return {
        "place": list(schedule.place),
        "task": task,
        "send": [(*sent, floor(start)) for sent, start in schedule.sent_s.items()],
        "leave": leave,
        "makespan": max(ends),
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
    wiring = model.arrays.wiring
    own = (model.seconds.T, model.allowed.T, model.memory_bytes, wiring.one_by_one)
    if not all(np.array_equal(values[a], values[b]) for values in own):
        return False
    swap = np.arange(model.devices)
    swap[[a, b]] = b, a
    both = np.ix_(swap, swap)
    if not all(np.array_equal(values, values[both]) for values in (wiring.latency_s, wiring.per_byte_s)):
        return False
    # Resources may change names, if each does so everywhere.
    before = [*wiring.leave.tolist(), *wiring.arrive.ravel().tolist()]
    after = [*wiring.leave[swap].tolist(), *wiring.arrive[both].ravel().tolist()]
    renamed, back = dict(zip(before, after, strict=True)), dict(zip(after, before, strict=True))
    devices = {d: int(swap[d]) for d in range(model.devices)}
    return (
        all(renamed[x] == y and back[y] == x for x, y in zip(before, after, strict=True))
        and renamed.get(-1, -1) == -1
        and all(renamed.get(d, y) == y for d, y in devices.items())
    )


def _rows(clusters: Clusters) -> list[tuple[list[int], list[int | None]]]:
    """What a device holds at once, and how much it can: always, and at some moments."""
    model = clusters.model
    cap = model.memory_bytes * (1 + MEMORY_SLACK)
    finite = cap[np.isfinite(cap)]
    if len(finite) == 0:
        return []
    unit = float(finite.max()) / MEMORY_SCALE
    caps = [math.floor(c / unit) if math.isfinite(c) else None for c in cap.tolist()]
    held = [clusters.held_bytes]  # clusters bound nothing, so the estimate may be too high
    if clusters.is_fine:
        held = [clusters.static_bytes]
        held += [
            clusters.static_bytes + np.bincount(clusters.unit_of_group, m, clusters.units) for m in _moments(model)
        ]
    shares = [np.floor(nbytes / unit) for nbytes in held]
    return [(share.astype(np.int64).tolist(), caps) for share in shares]


def _moments(model: PassModel) -> list[NDArray[np.float64]]:
    """Saved activations of every group that are all held when some operator runs, whatever the plan.

    Those of a forward operator that has ended, or is that operator, are held until its last backward did.
    An operator that may take no time gives no such moment.
    """
    problem, saved = model.problem, model.arrays.held.saved_bytes
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
    moments: dict[bytes, NDArray[np.float64]] = {}
    for moment in np.argsort(-total, kind="stable").tolist():
        if len(moments) < MOMENTS and total[moment] > 0:
            nbytes = np.bincount(model.group_of, saved * held[:, moment], len(model.groups)).astype(np.float64)
            moments.setdefault(held[:, moment].tobytes(), nbytes)
    return list(moments.values())
