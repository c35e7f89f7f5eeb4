"""Times of clusters for a placement and an order: a start for exact methods, and the length of a schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from solvers.joint.passes.clusters import Clusters
from solvers.joint.passes.plans import Sent
from solvers.joint.passes.simulator import Simulator
from solvers.kernels.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class Timed:
    """A schedule of clusters, in seconds.

    place: device of every unit. start_s, end_s: of every cluster. sent_s: when each transfer that is needed and
    occupies something starts, by (transfer, source, destination). left_s: when the sending half of each starts where
    that is one by itself, by (transfer, source).
    """

    place: tuple[int, ...]
    start_s: tuple[float, ...]
    end_s: tuple[float, ...]
    sent_s: dict[Sent, float]
    left_s: dict[tuple[int, int], float]

    @property
    def makespan_s(self) -> float:
        return max(self.end_s, default=0.0)


def timed(clusters: Clusters, place: Sequence[int] | Ints, order: Sequence[int]) -> Timed:
    """Clusters in a topological order, each as early as it can after those before it on its device, and its
    transfers after those before them on what they occupy; inf where a link or a way to run is missing.

    place: the device of every unit.
    """
    device = [int(place[unit]) for unit in clusters.unit_of.tolist()]
    start, end = [0.0] * len(device), [0.0] * len(device)
    lanes = _Lanes(clusters, device, end)
    for cluster in order:
        here = device[cluster]
        ready = max((end[u] for u in clusters.predecessors[cluster]), default=0.0)
        for number in clusters.incoming[cluster]:
            for source in sorted({device[p] for p in clusters.transfers[number].producers if p != cluster} - {here}):
                ready = max(ready, lanes.arrived_s((number, source, here)))
        alone = bool(clusters.one_by_one[here])
        start[cluster] = max(ready, lanes.free_s[here]) if alone else ready
        end[cluster] = start[cluster] + float(clusters.seconds[cluster, here])
        if alone:
            lanes.free_s[here] = end[cluster]
    return Timed(tuple(int(d) for d in place), tuple(start), tuple(end), lanes.sent_s, lanes.left_s)


class _Lanes:
    """Transfers on what they occupy, one after the other as they are asked for.

    device, end_s: of every cluster, as far as they have run. free_s: when each resource is free, devices first.
    """

    def __init__(self, clusters: Clusters, device: Sequence[int], end_s: Sequence[float]) -> None:
        self.clusters, self.device, self.end_s = clusters, device, end_s
        self.wiring = clusters.model.arrays.wiring
        self.free_s = [0.0] * int(self.wiring.resources)
        self.sent_s: dict[Sent, float] = {}
        self.left_s: dict[tuple[int, int], float] = {}
        self._gone_s: dict[tuple[int, int], float] = {}
        self._there_s: dict[Sent, float] = {}

    def arrived_s(self, sent: Sent) -> float:
        """When a transfer is on its destination."""
        if sent not in self._there_s:
            self._there_s[sent] = self._moved_s(*sent)
        return self._there_s[sent]

    def _moved_s(self, number: int, source: int, target: int) -> float:
        transfer = self.clusters.transfers[number]
        ready = max(self.end_s[p] for p in transfer.producers if self.device[p] == source)
        leave, arrive = int(self.wiring.leave[source]), int(self.wiring.arrive[source, target])
        if leave >= 0:
            if (number, source) not in self._gone_s:
                self.left_s[number, source] = begin = max(ready, self.free_s[leave])
                lasts = leaving(transfer.seconds, source, (self.device[r] for r in transfer.readers))
                self._gone_s[number, source] = self.free_s[leave] = begin + lasts
            ready = self._gone_s[number, source]
        if leave < 0 and arrive < 0:
            return ready
        self.sent_s[number, source, target] = begin = ready if arrive < 0 else max(ready, self.free_s[arrive])
        if arrive < 0:
            return begin
        self.free_s[arrive] = begin + float(transfer.seconds[source, target])
        return self.free_s[arrive]


def leaving(times: Floats, source: int, targets: Iterable[int]) -> float:
    """How long a transfer takes to leave a device: as long as to the farthest reader. times: [devices, devices]."""
    return max(float(times[source, d]) for d in set(targets) - {source})


def simulated(clusters: Clusters, simulator: Simulator, place: Sequence[int] | Ints) -> Timed:
    """The last simulation, where every operator is a cluster of its own, a unit on each device of ``place``."""
    number = {message: k for k, transfer in enumerate(clusters.transfers) for message in transfer.messages}
    sent: dict[Sent, float] = {}
    left: dict[tuple[int, int], float] = {}
    for (message, source, target), start in simulator.sent_s().items():
        if message in number:  # others take no time
            if source == target:
                left[number[message], source] = start
            else:
                sent[number[message], source, target] = start
    runs = [members[0] for members in clusters.members]
    start, end = simulator.state.start_s[runs].tolist(), simulator.state.end_s[runs].tolist()
    return Timed(tuple(int(d) for d in place), tuple(start), tuple(end), sent, left)
