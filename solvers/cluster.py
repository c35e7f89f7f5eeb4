"""Devices and the links between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from solvers.errors import InvalidProblem

CPU_KIND = "cpu"


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator, or the CPUs of a host.

    kind is a name of the device catalogue (equal kinds have equal costs). concurrency is how many
    operators run at once: 1, or None for unlimited (CPU cores under the CALL execution).
    node is the host it sits in.
    """

    name: str
    kind: str
    memory_bytes: float = math.inf
    flops_per_s: float = math.inf
    memory_bytes_per_s: float = math.inf
    concurrency: int | None = 1
    node: int = 0

    @property
    def is_cpu(self) -> bool:
        return self.kind == CPU_KIND


@dataclass(frozen=True, slots=True)
class Link:
    """A directed connection. Links that name the same ``resource`` share one wire."""

    src: int
    dst: int
    bandwidth_bytes_per_s: float
    latency_s: float = 0.0
    resource: str = ""

    def transfer_s(self, nbytes: float) -> float:
        return self.latency_s + nbytes / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True)
class Cluster:
    """Devices (accelerators first, then CPUs; their index is their position) and directed links.

    Raises InvalidProblem if there is no device, an accelerator follows a CPU, a number is not
    positive, or a link names a device that is not there.
    """

    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    _by_pair: dict[tuple[int, int], Link] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.devices:
            raise InvalidProblem("the cluster has no devices; give at least one (--devices 1)")
        kinds = [device.is_cpu for device in self.devices]
        if kinds != sorted(kinds):
            raise InvalidProblem("accelerators must come before CPUs in the cluster's devices")
        for device in self.devices:
            if math.isnan(device.memory_bytes) or device.memory_bytes <= 0:
                raise InvalidProblem(
                    f"device {device.name}: memory must be more than 0 bytes, found {device.memory_bytes}"
                )
        pairs: dict[tuple[int, int], Link] = {}
        for link in self.links:
            if not (0 <= link.src < len(self.devices) and 0 <= link.dst < len(self.devices)):
                raise InvalidProblem(f"link {link.src} -> {link.dst}: no such device")
            if not link.bandwidth_bytes_per_s > 0:
                raise InvalidProblem(
                    f"link {link.src} -> {link.dst}: bandwidth must be more than 0 bytes/s,"
                    f" found {link.bandwidth_bytes_per_s}"
                )
            if not (math.isfinite(link.latency_s) and link.latency_s >= 0):
                raise InvalidProblem(f"link {link.src} -> {link.dst}: latency must be >= 0 s, found {link.latency_s}")
            pairs[link.src, link.dst] = link
        object.__setattr__(self, "_by_pair", pairs)

    def __len__(self) -> int:
        return len(self.devices)

    @property
    def accelerators(self) -> tuple[int, ...]:
        return tuple(i for i, device in enumerate(self.devices) if not device.is_cpu)

    @property
    def cpus(self) -> tuple[int, ...]:
        return tuple(i for i, device in enumerate(self.devices) if device.is_cpu)

    def link(self, src: int, dst: int) -> Link | None:
        return self._by_pair.get((src, dst))

    def transfer_s(self, nbytes: float, src: int, dst: int) -> float:
        """Seconds to move ``nbytes`` from ``src`` to ``dst``; 0 on one device, inf without a link."""
        if src == dst:
            return 0.0
        link = self._by_pair.get((src, dst))
        return math.inf if link is None else link.transfer_s(nbytes)


def uniform_cluster(devices: Sequence[Device], bandwidth_bytes_per_s: float, latency_s: float = 0.0) -> Cluster:
    """Every pair of devices joined by a link of its own in each direction."""
    count = len(devices)
    links = tuple(
        Link(src, dst, bandwidth_bytes_per_s, latency_s, f"{src}->{dst}")
        for src in range(count)
        for dst in range(count)
        if src != dst
    )
    return Cluster(tuple(devices), links)


def two_level_cluster(
    devices: Sequence[Device],
    bandwidth_bytes_per_s: float,
    latency_s: float,
    node_bandwidth_bytes_per_s: float,
    node_latency_s: float,
) -> Cluster:
    """Links of their own inside a node; one shared wire per ordered pair of nodes between them."""
    links = []
    for src, a in enumerate(devices):
        for dst, b in enumerate(devices):
            if src == dst:
                continue
            if a.node == b.node:
                links.append(Link(src, dst, bandwidth_bytes_per_s, latency_s, f"{src}->{dst}"))
            else:
                links.append(Link(src, dst, node_bandwidth_bytes_per_s, node_latency_s, f"node{a.node}->node{b.node}"))
    return Cluster(tuple(devices), tuple(links))
