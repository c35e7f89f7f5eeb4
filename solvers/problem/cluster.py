"""Devices and the links between them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from solvers.errors import InvalidProblem
from solvers.problem.links import Link, LinkClass, Speed, Tiers, Wire, check_link, tiers_of
from solvers.problem.names import clean_names
from solvers.problem.rebuilt import Rebuilt

__all__ = [
    "CPU_KIND",
    "ONCE",
    "Cluster",
    "Device",
    "Link",
    "Repeats",
    "Ring",
    "Wires",
    "around",
    "two_level_cluster",
    "uniform_cluster",
]

CPU_KIND = "cpu"


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
    node is the host it sits in. members: devices of the tensor-parallel group that it stands for, where groups of a
    cluster differ in that, else 0.
    """

    name: str
    kind: str
    memory_bytes: float = math.inf
    flops_per_s: float = math.inf
    memory_bytes_per_s: float = math.inf
    concurrency: int | None = 1
    node: int = 0
    members: int = 0

    def __post_init__(self) -> None:
        clean_names(self, "name", "kind")

    @property
    def is_cpu(self) -> bool:
        """Whether it is a host, not an accelerator."""
        return self.kind == CPU_KIND


@dataclass(frozen=True, slots=True)
class Ring:
    """The ring all-reduce of gradients among r replicas (Patarasuk and Yuan, JPDC 2009).

    Each sends its neighbour 2(r-1) parts of an r-th of the gradients, one after the other. `solvers.verify` states
    this a second time, on purpose.
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

    def over_worst_s(self, speeds: Collection[Speed]) -> tuple[float, float]:
        """(seconds, seconds per byte of gradients), wherever the replicas are.

        speeds: of links; the longest latency and the least bandwidth of any are taken.
        """
        latency = max(speed.latency_s for speed in speeds)
        slowest = min(speed.bandwidth_bytes_per_s for speed in speeds)
        return self.steps * latency, self.nbytes(1.0) / slowest


@dataclass(frozen=True, slots=True)
class Repeats:
    """Copies of the whole cluster that run the same plan at once, each with a mini-batch of its own.

    Gradients are reduced over all of them.

    times: how many.
    link: from each copy to the next; None where a plan names devices there.
    """

    times: int = 1
    link: LinkClass | None = None

    def over_worst_s(self, replicas: int, speeds: Collection[Speed]) -> tuple[float, float]:
        """`Ring.over_worst_s` of the replicas of all groups, so many in each, none of them alone."""
        if replicas * self.times == 1:
            return 0.0, 0.0
        among = list(speeds) if replicas > 1 else []
        if self.link is not None:
            onward = self.link.latency_s, self.link.bandwidth_bytes_per_s
            among.append(Speed(*onward, inside=False, from_cpu=False, to_cpu=False))
        return Ring(replicas * self.times).over_worst_s(among)


ONCE = Repeats()


def around(devices: Sequence[int]) -> list[tuple[int, int]]:
    """The pairs of neighbours of a ring: each device, and whom it sends to."""
    return list(zip(devices, (*devices[1:], *devices[:1]), strict=True))


@dataclass(frozen=True, slots=True, repr=False)
class Cluster(Rebuilt):
    """Devices (accelerators first, then CPUs; their index is their position) and directed links.

    Links are given one by one, or for all pairs by class (`Tiers`), which makes a link when it is needed.

    Raises InvalidProblem if there is no device, an accelerator follows a CPU, a number is not
    positive, a link names a device that is not there, joins a device to itself or two that have a link
    already, or a resource is called as the simulator calls one of its own.
    """

    devices: tuple[Device, ...]
    links: tuple[Link, ...] | Tiers = ()
    _by_pair: dict[tuple[int, int], Link] = field(init=False, repr=False, compare=False)
    _derived: list[Any] = field(init=False, repr=False, compare=False, default_factory=list)
    """What others derive from the cluster once (`evaluation.columns`)."""
    _speeds: list[Counter[Speed]] = field(init=False, repr=False, compare=False, default_factory=list)

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
        if isinstance(self.links, Tiers):
            if len(self.links.numbers) != len(self.devices):
                raise InvalidProblem(
                    f"links by class of {len(self.links.numbers)} devices, but there are {len(self.devices)}"
                )
        else:
            for link in self.links:
                check_link(link, len(self.devices))
                if (link.src, link.dst) in pairs:
                    raise InvalidProblem(f"link {link.src} -> {link.dst}: there are two of them; keep one")
                pairs[link.src, link.dst] = link
        object.__setattr__(self, "_by_pair", pairs)

    def __hash__(self) -> int:
        return hash((self.devices, len(self.links)))

    def __repr__(self) -> str:
        kinds = ", ".join(f"{count:,} x {kind!r}" for kind, count in Counter(d.kind for d in self.devices).items())
        return f"Cluster({kinds}: {len(self.links):,} links)"

    def __len__(self) -> int:
        return len(self.devices)

    @property
    def accelerators(self) -> tuple[int, ...]:
        """Indices of the accelerators, ascending."""
        return tuple(i for i, device in enumerate(self.devices) if not device.is_cpu)

    @property
    def cpus(self) -> tuple[int, ...]:
        """Indices of the CPUs, ascending."""
        return tuple(i for i, device in enumerate(self.devices) if device.is_cpu)

    @property
    def speeds(self) -> Mapping[Speed, int]:
        """How many links there are of every speed, without a look at every pair where they are by class."""
        if not self._speeds:
            nodes, cpus = [d.node for d in self.devices], [d.is_cpu for d in self.devices]
            if isinstance(self.links, Tiers):
                self._speeds.append(self.links.speeds(nodes, cpus))
            else:
                self._speeds.append(
                    Counter(
                        Speed(one.latency_s, one.bandwidth_bytes_per_s, nodes[one.src] == nodes[one.dst],
                              cpus[one.src], cpus[one.dst])
                        for one in self.links
                    )
                )  # fmt: skip
        return self._speeds[0]

    @property
    def is_complete(self) -> bool:
        """Whether every ordered pair of devices has a link."""
        return len(self.links) == len(self) * (len(self) - 1)

    @property
    def shares_between(self) -> bool:
        """Whether any two links between nodes have one wire, or some have none of their own."""
        if isinstance(self.links, Tiers):
            return self.links.shares_between
        outer = [one for one in self.links if self.devices[one.src].node != self.devices[one.dst].node]
        return len({one.resource for one in outer if one.resource}) < len(outer)

    def link(self, src: int, dst: int) -> Link | None:
        """The link from one device to another; None where there is none."""
        if isinstance(self.links, Tiers):
            return None if src == dst else self.links.link(src, dst)
        return self._by_pair.get((src, dst))

    def transfer_s(self, nbytes: float, src: int, dst: int) -> float:
        """Seconds to move ``nbytes`` from ``src`` to ``dst``; 0 on one device, inf without a link."""
        if src == dst:
            return 0.0
        link = self.link(src, dst)
        return math.inf if link is None else link.transfer_s(nbytes)

    def part(self, devices: Sequence[int]) -> Cluster:
        """Some of the devices, ascending, and the links between them."""
        some = tuple(self.devices[device] for device in devices)
        if isinstance(self.links, Tiers):
            return Cluster(some, self.links.part(devices))
        number = {device: at for at, device in enumerate(devices)}
        links = tuple(
            replace(link, src=number[link.src], dst=number[link.dst])
            for link in self.links
            if link.src in number and link.dst in number
        )
        return Cluster(some, links)

    def at_speed(self, latency_s: float, bandwidth_bytes_per_s: float) -> Cluster:
        """The same devices and links, all with this latency and bandwidth."""
        if isinstance(self.links, Tiers):
            return Cluster(self.devices, self.links.at_speed(latency_s, bandwidth_bytes_per_s))
        links = (replace(one, latency_s=latency_s, bandwidth_bytes_per_s=bandwidth_bytes_per_s) for one in self.links)
        return Cluster(self.devices, tuple(links))


def uniform_cluster(
    devices: Sequence[Device],
    bandwidth_bytes_per_s: float,
    latency_s: float = 0.0,
    wires: Wires = Wires.DEDICATED,
) -> Cluster:
    """Devices of one host, every ordered pair joined by a link as fast as any other."""
    return _tiered(devices, [0] * len(devices), LinkClass(bandwidth_bytes_per_s, latency_s, _INSIDE[wires]), None)


def two_level_cluster(
    devices: Sequence[Device],
    bandwidth_bytes_per_s: float,
    latency_s: float,
    node_bandwidth_bytes_per_s: float,
    node_latency_s: float,
    wires: Wires = Wires.DEDICATED,
) -> Cluster:
    """Links as ``wires`` says inside a node; one shared wire per ordered pair of nodes between them."""
    inside = LinkClass(bandwidth_bytes_per_s, latency_s, _INSIDE[wires])
    between = LinkClass(node_bandwidth_bytes_per_s, node_latency_s, Wire.NODES)
    return _tiered(devices, [device.node for device in devices], inside, between)


def _tiered(devices: Sequence[Device], nodes: Sequence[int], inside: LinkClass, between: LinkClass | None) -> Cluster:
    groups = [0] * len(devices)
    return Cluster(tuple(devices), tiers_of(range(len(devices)), nodes, groups, lambda _: inside, lambda *_: between))


_INSIDE = {Wires.DEDICATED: Wire.PAIR, Wires.SHARED: Wire.HOST}
"""A PCIe link carries both directions at once, but a transfer between two devices whose way leads over the
root goes up the link to the root and down again, so it takes both directions, and the next one waits. That
is the way where peers may not talk directly: NCCL, User Guide, "Troubleshooting", PCI Access Control
Services (https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html), or by way of the
host's memory."""
