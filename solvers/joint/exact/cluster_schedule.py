"""Times of clusters for a placement and an order: a start for exact methods, and the length of a schedule."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solvers.joint.exact.clusters import Clusters
from solvers.joint.passes.simulator import Simulator
from solvers.kernels.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class Timed:
    """A schedule of clusters, in seconds.

    place: device of every unit. start_s, end_s: of every cluster. sent_s: when each transfer that is needed
    starts, by (transfer, source, destination).
    """

    place: tuple[int, ...]
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]
    sent_s: dict[tuple[int, int, int], float]

    @property
    def makespan_s(self) -> float:
        return max(self.end_s, default=0.0)


def timed(clusters: Clusters, place: Sequence[int], order: Sequence[int]) -> Timed:
    """Clusters in a topological order, each as early as it can after those before it on its device, and its
    transfers after those before them on their links; inf where a link or a way to run is missing."""
    device = [int(place[unit]) for unit in clusters.unit_of.tolist()]
    start, end = [0.0] * len(device), [0.0] * len(device)
    device_free = [0.0] * clusters.devices
    link_free: dict[int, float] = {}
    sent: dict[tuple[int, int, int], float] = {}
    for cluster in order:
        here = device[cluster]
        ready = max((end[u] for u in clusters.predecessors[cluster]), default=0.0)
        for number in clusters.incoming[cluster]:
            feeding = clusters.feeds(number, cluster)
            for source in sorted({device[p] for p in feeding} - {here}):
                lasts = float(clusters.transfers[number].seconds[source, here])
                key = number, source, here
                if key not in sent:
                    link = int(clusters.resource[source, here])
                    done = max(end[p] for p in feeding if device[p] == source)
                    sent[key] = max(done, link_free.get(link, 0.0))
                    link_free[link] = sent[key] + lasts
                ready = max(ready, sent[key] + lasts)
        alone = bool(clusters.one_by_one[here])
        start[cluster] = max(ready, device_free[here]) if alone else ready
        end[cluster] = start[cluster] + float(clusters.seconds[cluster, here])
        if alone:
            device_free[here] = end[cluster]
    return Timed(tuple(int(d) for d in place), tuple(start), tuple(end), sent)


def simulated(clusters: Clusters, simulator: Simulator, place: Sequence[int]) -> Timed:
    """The last simulation, where every operator is a cluster of its own, a unit on each device of ``place``,
    and transfers occupy nothing but links."""
    state, operators = simulator.state, clusters.model.operators
    number = {message: k for k, transfer in enumerate(clusters.transfers) for message in transfer.messages}
    sent = {}
    for task in range(operators, int(state.counts[0])):
        message = int(state.message[task])
        if message in number:
            key = number[message], int(state.device[task]), int(state.target[task])
            sent[key] = float(state.start_s[task])
    runs = [members[0] for members in clusters.members]
    start, end = state.start_s[runs].tolist(), state.end_s[runs].tolist()
    return Timed(tuple(int(d) for d in place), tuple(start), tuple(end), sent)


def in_order_of(clusters: Clusters, priority: Sequence[float] | Floats) -> list[int]:
    """The topological order in which of all that could be next the one with the lowest priority is, [clusters]."""
    waiting = [len(before) for before in clusters.predecessors]
    ready = [(float(priority[c]), c) for c, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        _, cluster = heapq.heappop(ready)
        order.append(cluster)
        for after in clusters.successors[cluster]:
            waiting[after] -= 1
            if waiting[after] == 0:
                heapq.heappush(ready, (float(priority[after]), after))
    return order


def projected(clusters: Clusters, place_of_groups: Ints) -> Ints:
    """The device of every unit on which most of its work is, of those that it may run on."""
    model = clusters.model
    work = np.bincount(model.group_of, model.mean_s, len(model.groups))
    votes = np.zeros((clusters.units, clusters.devices))
    np.add.at(votes, (clusters.unit_of_group, place_of_groups), work + 1e-12 * (work.sum() or 1.0))
    votes[~clusters.allowed] = -1.0
    place: Ints = votes.argmax(axis=1).astype(np.int64)
    return place


def sequences(clusters: Clusters, place: Sequence[int], order: Sequence[int]) -> list[list[int]]:
    """The operators of every device where clusters run in this order."""
    result: list[list[int]] = [[] for _ in range(clusters.devices)]
    for cluster in order:
        result[int(place[clusters.unit_of[cluster]])].extend(clusters.members[cluster])
    return result
