"""When calls and operators on CPUs start and end, the calls of an accelerator in a given order."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.kernels.arrays import Ints
from solvers.latency.model import LatencyModel
from solvers.problem.graph import edges_of, labels_after, topological_order


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
    for u, readers, message in messages_of(latency, unit_s):
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


def messages_of(latency: LatencyModel, unit_s: float) -> list[tuple[int, list[int], float]]:
    """Maker, readers and time, in units of ``unit_s`` seconds, of every message."""
    at = latency.calls
    return [
        (u, at.reader[at.reader_start[m] : at.reader_start[m + 1]].tolist(), float(at.message_s[m]) / unit_s)
        for u in range(len(latency.group_of))
        for m in at.sent[at.sent_start[u] : at.sent_start[u + 1]].tolist()
    ]
