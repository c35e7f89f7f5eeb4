"""Piper's own model of layers: times, bytes and ways to run them as a workload states them.

Tarnawski, Narayanan, Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization", NeurIPS
2021, section 3: a stage runs with tensor-parallel degree t and data-parallel degree d on t d devices.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from solvers.errors import InvalidProblem
from solvers.kernels.arrays import Bools, Floats

PLAIN, RECOMPUTED = 0, 1
"""The ways a layer is run: as it is, or with its activations computed again for the backward pass."""


@dataclass(frozen=True, slots=True, eq=False)
class PiperModel:
    """Layers in a topological order, edges between them, and the machine they are planned for.

    names: of the layers. edges: (from, to), from < to; edge_bytes: sent over each, per micro-batch and
    direction. degrees: of tensor parallelism. able: [degrees, layers], whether a layer can run at a degree.
    time_s: [degrees, layers, ways] seconds of forward and backward of a micro-batch ("sample"; inf: no such
    way). param_bytes: [degrees, layers], per device. per_flight_bytes, fixed_bytes: [degrees, layers,
    ways] a and b: per micro-batch in flight, and all the time. gather_bytes, scatter_bytes: [degrees, edges]
    more bytes that the reader, and the maker, of an edge that leaves a stage moves at that degree.
    devices; memory_bytes and bandwidth_bytes_per_s of each; micro_batches in a batch.
    """

    names: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    edge_bytes: Floats
    degrees: tuple[int, ...]
    able: Bools
    time_s: Floats
    param_bytes: Floats
    per_flight_bytes: Floats
    fixed_bytes: Floats
    gather_bytes: Floats
    scatter_bytes: Floats
    devices: int
    memory_bytes: float
    bandwidth_bytes_per_s: float
    micro_batches: int

    def __post_init__(self) -> None:
        if not self.names:
            raise InvalidProblem("there are no layers to plan")
        if any(u >= v for u, v in self.edges):
            raise InvalidProblem("edges must lead from a layer to a later one")
        if self.devices < 1 or self.micro_batches < 1:
            raise InvalidProblem("there must be at least one device and one micro-batch")
        if not (self.memory_bytes > 0 and self.bandwidth_bytes_per_s > 0):
            raise InvalidProblem("memory and bandwidth must be more than 0")

    def __len__(self) -> int:
        return len(self.names)

    @property
    def most_degrees(self) -> int:
        """The most that the data-parallel degrees of all stages may add up to."""
        return min(self.micro_batches, self.devices)

    def data_degrees(self, tensor_degree: int) -> list[int]:
        """Data-parallel degrees that the devices allow: they divide the number of micro-batches."""
        most = min(self.devices // tensor_degree, self.most_degrees)
        return [d for d in range(1, most + 1) if self.micro_batches % d == 0]

    def synchronised_bytes(self, param_bytes: Floats, d: int) -> Floats:
        """Bytes of gradients and parameters each of d replicas moves, per micro-batch (section 3: a
        parameter server spread over the replicas)."""
        return np.asarray(4 * (d - 1) / d * param_bytes / self.micro_batches)

    def stage_s(self, layers: Collection[int], degree: int, d: int, recomputed: Collection[int] = ()) -> float:
        """Seconds per sample of a stage. degree: position in ``degrees``. inf if a layer cannot run so."""
        members = sorted(layers)
        ways = [RECOMPUTED if v in set(recomputed) else PLAIN for v in members]
        if not self.able[degree, members].all():
            return np.inf
        moved = 0.0
        for number, (u, v) in enumerate(self.edges):
            if v in layers and u not in layers:
                moved += 2 * (self.edge_bytes[number] + self.gather_bytes[degree, number])
            if u in layers and v not in layers:
                moved += 2 * (self.edge_bytes[number] + self.scatter_bytes[degree, number])
        moved = moved / d + float(self.synchronised_bytes(self.param_bytes[degree, members], d).sum())
        return float(self.time_s[degree, members, ways].sum()) / d + moved / self.bandwidth_bytes_per_s

    def stage_bytes(
        self, layers: Collection[int], degree: int, flights: int, recomputed: Collection[int] = ()
    ) -> float:
        """Bytes on each device of a stage with so many micro-batches in flight on it."""
        members = sorted(layers)
        ways = [RECOMPUTED if v in set(recomputed) else PLAIN for v in members]
        per_flight, fixed = self.per_flight_bytes[degree, members, ways], self.fixed_bytes[degree, members, ways]
        return float((flights * per_flight + fixed).sum())
