"""Devices and the links between them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from solvers.errors import InvalidProblem
from solvers.problem.names import clean_names
from solvers.problem.rebuilt import Rebuilt

CPU_KIND = "cpu"
_RESERVED = re.compile(r"(device|lane|in|out) [0-9]+")
"""Resources of the simulator that are not links."""


class Wires(StrEnum):
    """What carries the transfers between the devices of one host.

    DEDICATED: a link of its own for every ordered pair of devices (NVLink). SHARED: one wire for all of
    them, one transfer at a time (PCIe through one root complex).
    """

    DEDICATED = "dedicated"
    SHARED = "shared"


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

    def __post_init__(self) -> None:
        clean_names(self, "name", "kind")

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

    def __post_init__(self) -> None:
        clean_names(self, "resource")

    def transfer_s(self, nbytes: float) -> float:
        return self.latency_s + nbytes / self.bandwidth_bytes_per_s


@dataclass(frozen=True, slots=True)
class Ring:
    """The all-reduce of gradients among replicas: each sends the next one, and the last the first, 2(r-1) parts of an
    r-th of them, one after the other (Patarasuk and Yuan, JPDC 2009). `solvers.verify` has it once more, on purpose.
    """

    replicas: int

    @property
    def steps(self) -> int:
        """Messages that every link carries, one after the other."""
        return 2 * (self.replicas - 1)

    def nbytes(self, gradient_bytes: float) -> float:
        """What every link moves."""
        return self.steps / self.replicas * gradient_bytes

    def link_s(self, link: Link, gradient_bytes: float) -> float:
        """Seconds on one link of the ring; all of it takes as long as its slowest."""
        return self.steps * link.latency_s + self.nbytes(gradient_bytes) / link.bandwidth_bytes_per_s

    def over_worst_s(self, links: Sequence[Link]) -> tuple[float, float]:
        """(seconds, seconds per byte of gradients) wherever the replicas are: over a link with the longest latency and
        the least bandwidth of any of ``links``."""
        latency = max(link.latency_s for link in links)
        slowest = min(link.bandwidth_bytes_per_s for link in links)
        return self.steps * latency, self.nbytes(1.0) / slowest


def around(devices: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs of neighbours of a ring: each device, and whom it sends to."""
    return list(zip(devices, (*devices[1:], *devices[:1]), strict=True))


@dataclass(frozen=True, slots=True, repr=False)
class Cluster(Rebuilt):
    """Devices (accelerators first, then CPUs; their index is their position) and directed links.

    Raises InvalidProblem if there is no device, an accelerator follows a CPU, a number is not
    positive, a link names a device that is not there, joins a device to itself or two that have a link
    already, or a resource is called as the simulator calls one of its own.
    """

    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    _by_pair: dict[tuple[int, int], Link] = field(init=False, repr=False, compare=False)
    _derived: list[Any] = field(init=False, repr=False, compare=False, default_factory=list)
    """What others derive from the cluster once (`evaluation.columns`)."""

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
            if link.src == link.dst:
                raise InvalidProblem(f"link {link.src} -> {link.dst}: a device needs no link to itself; leave it out")
            if (link.src, link.dst) in pairs:
                raise InvalidProblem(f"link {link.src} -> {link.dst}: there are two of them; keep one")
            if _RESERVED.fullmatch(link.resource):
                raise InvalidProblem(
                    f"link {link.src} -> {link.dst}: the resource {link.resource!r} has the name of a device's own;"
                    " call it something else"
                )
            if not link.bandwidth_bytes_per_s > 0:
                raise InvalidProblem(
                    f"link {link.src} -> {link.dst}: bandwidth must be more than 0 bytes/s,"
                    f" found {link.bandwidth_bytes_per_s}"
                )
            if not (math.isfinite(link.latency_s) and link.latency_s >= 0):
                raise InvalidProblem(f"link {link.src} -> {link.dst}: latency must be >= 0 s, found {link.latency_s}")
            pairs[link.src, link.dst] = link
        object.__setattr__(self, "_by_pair", pairs)

    def __repr__(self) -> str:
        kinds = ", ".join(f"{count:,} x {kind!r}" for kind, count in Counter(d.kind for d in self.devices).items())
        return f"Cluster({kinds}: {len(self.links):,} links)"

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


def uniform_cluster(
    devices: Sequence[Device],
    bandwidth_bytes_per_s: float,
    latency_s: float = 0.0,
    wires: Wires = Wires.DEDICATED,
) -> Cluster:
    """Devices of one host, every ordered pair joined by a link as fast as any other."""
    count = len(devices)
    links = tuple(
        Link(src, dst, bandwidth_bytes_per_s, latency_s, _wire(src, dst, 0, wires))
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
    wires: Wires = Wires.DEDICATED,
) -> Cluster:
    """Links as ``wires`` says inside a node; one shared wire per ordered pair of nodes between them."""
    links = []
    for src, a in enumerate(devices):
        for dst, b in enumerate(devices):
            if src == dst:
                continue
            if a.node == b.node:
                links.append(Link(src, dst, bandwidth_bytes_per_s, latency_s, _wire(src, dst, a.node, wires)))
            else:
                links.append(Link(src, dst, node_bandwidth_bytes_per_s, node_latency_s, f"node{a.node}->node{b.node}"))
    return Cluster(tuple(devices), tuple(links))


def _wire(src: int, dst: int, node: int, wires: Wires) -> str:
    """The resource of a link inside a node.

    A PCIe link carries both directions at once, but a transfer between two devices whose way leads over the
    root goes up the link to the root and down again, so it takes both directions, and the next one waits. That
    is the way where peers may not talk directly: NCCL, User Guide, "Troubleshooting", PCI Access Control
    Services (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html), or by way of the
    host's memory.
    """
    return f"host {node} root" if wires is Wires.SHARED else f"{src}->{dst}"
