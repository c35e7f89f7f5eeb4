"""Schedules that `solvers.joint.exact.cp_program` begins from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from solvers.joint.exact.clusters import Clusters
from solvers.joint.passes.simulator import Simulator
from solvers.kernels.arrays import Ints

Message = dict[str, Any]


def simulated(clusters: Clusters, payload: Message, simulator: Simulator, place: Ints) -> Message:
    """The last simulation, rounded down to units, where every operator is a cluster of its own.

    place: the device of every unit. That is a solution of the program: units are powers of two, and
    the rounding of floating-point sums is monotone, so what followed something still does.
    """
    state, count = simulator.state, clusters.model.operators
    number = {message: k for k, transfer in enumerate(clusters.transfers) for message in transfer.messages}
    starts = np.floor(state.start_s / payload["unit_s"])
    task = [int(starts[operators[0]]) for operators in clusters.members]
    send, leave = [], []
    for t in range(count, int(state.counts[0])):
        src, dst, message = int(state.device[t]), int(state.target[t]), number.get(int(state.message[t]))
        if message is None:  # takes no time
            continue
        if src != dst:
            send.append((message, src, dst, int(starts[t])))
        else:
            leave.append((message, src, int(starts[t]), _longest(payload, message, src, place)))
    ends = [begin + payload["seconds"][t][place[clusters.unit_of[t]]] for t, begin in enumerate(task)]
    return {"place": place.tolist(), "task": task, "send": send, "leave": leave, "makespan": max(ends)}


def in_turn(clusters: Clusters, payload: Message, place: Ints, order: Sequence[int]) -> Message:
    """Tasks in a topological order, each as early as it can after those before it, its transfers just before.

    place: the device of every unit.
    """
    free: list[int] = [0] * payload["resources"]
    device = [int(place[unit]) for unit in clusters.unit_of.tolist()]
    task: list[int] = [0] * len(device)
    end: list[int] = [0] * len(device)
    there: dict[tuple[int, int, int], int] = {}
    gone: dict[tuple[int, int], int] = {}
    send: list[tuple[int, int, int, int]] = []
    leave: list[tuple[int, int, int, int]] = []

    def moved(message: int, src: int, dst: int) -> int:
        """When a message is on another device."""
        producers, _, times = payload["messages"][message]
        ready: int = max(end[p] for p in producers if device[p] == src)
        away, into = payload["leave"][src], payload["arrive"][src][dst]
        if away >= 0:
            if (message, src) not in gone:
                off, lasts = max(ready, free[away]), _longest(payload, message, src, place)
                gone[message, src] = free[away] = off + lasts
                leave.append((message, src, off, lasts))
            ready = gone[message, src]
        if away < 0 and into < 0:
            return ready
        begin: int = ready if into < 0 else max(ready, free[into])
        send.append((message, src, dst, begin))
        if into < 0:
            return begin
        arrived: int = begin + times[src][dst]
        free[into] = arrived
        return arrived

    for t in order:
        here = device[t]
        ready = max((end[u] for u in clusters.predecessors[t]), default=0)
        for message in clusters.incoming[t]:
            for src in sorted({device[p] for p in clusters.feeds(message, t)} - {here}):
                if (message, src, here) not in there:
                    there[message, src, here] = moved(message, src, here)
                ready = max(ready, there[message, src, here])
        exclusive = payload["one_by_one"][here]
        task[t] = max(ready, free[here]) if exclusive else ready
        end[t] = task[t] + payload["seconds"][t][here]
        if exclusive:
            free[here] = end[t]
    return {"place": place.tolist(), "task": task, "send": send, "leave": leave, "makespan": max(end)}


def _longest(payload: Message, message: int, src: int, place: Ints) -> int:
    """How long a message takes to leave a device: as long as to the farthest reader."""
    _, readers, times = payload["messages"][message]
    there = {int(place[payload["group_of"][r]]) for r in readers} - {src}
    return max(int(times[src][d]) for d in there)
