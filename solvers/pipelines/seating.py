"""Which devices the stages of a draft run on where these differ in kind or memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.interpreted import until_worth_it
from solvers.kernels.lazy import njit
from solvers.plan.segments import Place
from solvers.problem.cluster import Cluster
from solvers.problem.problem import Problem


def kinds_by_speed(problem: Problem) -> list[str]:
    """The kinds of the accelerators, that first which takes the least time for all operators (any that it cannot run
    count most)."""
    cluster = problem.cluster
    kinds = dict.fromkeys(cluster.devices[d].kind for d in cluster.accelerators)
    return sorted(kinds, key=lambda kind: _whole_s(problem, kind))


def _whole_s(problem: Problem, kind: str) -> tuple[int, float]:
    """Of a kind: how many operators it cannot run, and seconds of the others."""
    seconds = problem.compute.at(kind, 1)
    runs = np.isfinite(seconds)
    return int((~runs).sum()), float(seconds[runs].sum())


def caps_differ(cluster: Cluster) -> bool:
    """Whether accelerators of one kind differ in memory."""
    specs = {(cluster.devices[d].kind, cluster.devices[d].memory_bytes) for d in cluster.accelerators}
    return len(specs) > len({kind for kind, _ in specs})


class Seating:
    """Devices for stages: the busiest stages go to the fastest kind, and of one kind those that hold most to the
    devices with most memory. A stage with a pinned operator goes to its device.

    kinds: the fastest first. slower: of each kind, how many times as long as the first it takes for all operators.
    """

    def __init__(self, problem: Problem) -> None:
        devices = problem.cluster.devices
        self.kinds = kinds_by_speed(problem)
        totals = [_whole_s(problem, kind)[1] for kind in self.kinds]
        self.slower = [total / totals[0] if totals[0] else 1.0 for total in totals]
        self.kind_of = {d: self.kinds.index(devices[d].kind) for d in problem.cluster.accelerators}
        self._by_memory = [
            sorted((d for d, k in self.kind_of.items() if k == kind), key=lambda d: (-devices[d].memory_bytes, d))
            for kind in range(len(self.kinds))
        ]
        self._caps = {d: devices[d].memory_bytes for d in problem.cluster.accelerators}
        self.uniform = len(self.kinds) == 1 and len(set(self._caps.values())) == 1

    def kinds_of(
        self, work_s: Sequence[float], replicas: Sequence[int], pinned: Sequence[int | None]
    ) -> list[int] | None:
        """The number of the kind of every stage, by its seconds of work on one and the same kind; None where too few
        devices of any one kind are left for some stage."""
        if len(self.kinds) == 1:
            return [0] * len(work_s)
        counts = np.array([len(devices) for devices in self._by_memory], np.int64)
        chosen = np.array([-1 if device is None else self.kind_of.get(device, -1) for device in pinned], np.int64)
        kinds = _free_kinds(counts, np.array(work_s, np.float64), np.array(replicas, np.int64), chosen)
        return None if (kinds < 0).any() else kinds.tolist()

    def devices_of(
        self, kinds: Sequence[int], replicas: Sequence[int], pinned: Sequence[int | None], held: Sequence[float]
    ) -> list[Place]:
        """The devices of every stage. held: bytes at the peak of one of its devices, as far as that is known. Stages
        that hold equally much take devices of equal memory in their order."""
        free = [[d for d in devices if d not in pinned] for devices in self._by_memory]
        places: list[Place] = [() if device is None else (device,) for device in pinned]
        for stage in sorted(range(len(kinds)), key=lambda s: (-held[s], s)):
            if not places[stage]:
                pool = free[kinds[stage]]
                places[stage] = tuple(sorted(pool[: replicas[stage]]))
                del pool[: replicas[stage]]
        return places


@njit(cache=True)
def free_kinds(counts: Ints, work_s: Floats, replicas: Ints, chosen: Ints) -> Ints:
    """The kind of every stage, the busiest first on the first kind that has devices enough left, -1 where none has.

    counts: devices, [kinds]. work_s: on one and the same kind, [stages]. chosen: kinds that are given, else -1.
    """
    free, kinds = counts.copy(), chosen.copy()
    for s in range(len(chosen)):
        if chosen[s] >= 0:
            free[chosen[s]] -= replicas[s]
    for s in np.argsort(-work_s, kind="mergesort"):
        for kind in range(len(counts)):
            if kinds[s] < 0 and free[kind] >= replicas[s]:
                kinds[s] = kind
                free[kind] -= replicas[s]
    return kinds


_free_kinds = until_worth_it(free_kinds)
