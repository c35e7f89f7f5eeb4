"""What joins devices where machines with their kind are bought: NVLink inside a node, a network between nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from explorer.costs.curves import KIN, MeasuredLink, curves
from explorer.costs.profile import CollectiveTimes, Profile
from explorer.question.nodes.presets import PRESETS
from explorer.question.written.device_lists import parse_kinds
from explorer.question.written.quantities import parse_bandwidth, parse_seconds
from solvers.problem.cluster import Cluster, Device
from solvers.problem.links import LinkClass, Wire, tiers_of

GB = 1e9


class Wiring(StrEnum):
    """PLAIN: 25 GB/s between any two devices, 12.5 GB/s between nodes, whatever they are. KIND: as machines with that
    kind of device have them. MEASURED: the same, as fast as messages and collectives over them were measured to be."""

    PLAIN = "plain"
    KIND = "kind"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Machine:
    """A node as it is sold. devices: of one node. inside, between: links in it, and from one to another. name: of what
    carries the former."""

    devices: int
    inside: LinkClass
    between: LinkClass
    name: str


def _of_preset(preset: str, name: str) -> Machine:
    stated = PRESETS[preset]
    kinds = parse_kinds(stated.devices)
    inside = {None: Wire.PAIR, "device": Wire.PORT, "shared": Wire.HOST}[stated.links.get("wires")]
    between = {None: Wire.NODES, "device": Wire.ADAPTER, "node": Wire.NODE}[stated.network.get("wires")]
    return Machine(
        1 if isinstance(kinds, str) else len(kinds),
        LinkClass(parse_bandwidth(stated.links["bandwidth"]), parse_seconds(stated.links["latency"]), inside),
        LinkClass(parse_bandwidth(stated.network["bandwidth"]), parse_seconds(stated.network["latency"]), between),
        name,
    )


_A100, _H100, _PCIE = _of_preset("dgx-a100", "NVLink"), _of_preset("dgx-h100", "NVLink"), _of_preset("l4-box", "PCIe")
_V100 = _of_preset("v100-node", "NVLink")
_400_GBIT = LinkClass(50 * GB, 5e-6, Wire.ADAPTER)

MACHINES: dict[str, Machine] = {
    "V100-16GB": _V100,
    "V100-32GB": _V100,
    "A100-40GB": _A100,
    "A100-80GB": _A100,
    "H100-80GB": _H100,
    "H200-141GB": _H100,
    # NVIDIA, DGX B200 datasheet: fifth-generation NVLink, 1.8 TB/s a GPU in both directions; 400 Gbit/s a GPU
    "B200-180GB": Machine(8, LinkClass(900 * GB, 2e-6, Wire.PORT), _400_GBIT, "NVLink"),
    # NVIDIA, GB200 NVL72: 72 GPUs of one NVLink domain, 1.8 TB/s each in both directions; 400 Gbit/s a GPU
    "GB200-186GB": Machine(72, LinkClass(900 * GB, 2e-6, Wire.PORT), _400_GBIT, "NVLink"),
    # AMD, Instinct MI300X platform data sheet: 128 GB/s in both directions between any two of eight; 400 Gbit/s a GPU
    "MI300X-192GB": Machine(8, LinkClass(64 * GB, 2e-6, Wire.PAIR), _400_GBIT, "Infinity Fabric"),
    "RTX4060M-8GB": _of_preset("laptop", "PCIe"),
}
"""By kind of device; others have PCIe (L4, L40S, A10G, RTX 4090)."""


def machine_of(kind: str) -> Machine:
    return MACHINES.get(kind, _PCIE)


SAME_NETWORK = 0.5
"""Messages between nodes that reach less of the stated rate went over another network than the stated one."""


def as_measured(kind: str) -> Machine:
    """The machine of a kind of device with the latency and bandwidth that a line through measured messages has, where
    there is one of that link: measured between such devices, or between their kin joined by the same link."""
    stated = machine_of(kind)
    inside, between = measured_line(kind, "send in a node", 2), measured_line(kind, "send between nodes", 2)
    if between is not None and between.bandwidth_bytes_per_s < SAME_NETWORK * stated.between.bandwidth_bytes_per_s:
        between = None
    return replace(stated, inside=_over(inside, stated.inside), between=_over(between, stated.between))


def measured_line(kind: str, operation: str, devices: int) -> MeasuredLink | None:
    """The line through an operation among so many devices of a kind, or of its kin if the same link joins them."""
    alike = (near for near in (kind, *KIN.get(kind, ())) if near == kind or MACHINES.get(near) is MACHINES.get(kind))
    return next((line for near in alike if (line := curves().link(near, operation, devices)) is not None), None)


Lines = Callable[[str, str, int], MeasuredLink | CollectiveTimes | None]
"""(kind of device, operation, how many devices) -> the line through what was measured; None where it was not."""


def unmeasured(kind: str, operation: str, devices: int) -> None:
    """No lines at all."""
    return


def lines_of(profile: Profile) -> Lines:
    """Those of the machine that a profile is of."""

    def line(kind: str, operation: str, devices: int) -> CollectiveTimes | None:
        lines = (one for one in profile.collectives if (one.kind, one.members) == (operation, devices))
        return next(lines, None)

    return line


def _over(line: MeasuredLink | None, stated: LinkClass) -> LinkClass:
    return stated if line is None else LinkClass(line.bandwidth_bytes_per_s, line.latency_s, stated.wire)


def per_node(kinds: Sequence[str], stated: int | None) -> int:
    """How many devices a node has: as asked for, or as the smallest of the machines."""
    return stated or min(machine_of(kind).devices for kind in kinds)


def wired(
    devices: Sequence[Device],
    latency_s: float | None,
    inside: float | None,
    between: float | None,
    machine: Callable[[str], Machine] = machine_of,
) -> Cluster:
    """Devices, which have their nodes, with the links of their kinds; in a node of several kinds, and between nodes,
    those of the slower. inside, between: bytes/s that are asked for in place of these; so is latency_s. machine: of a
    kind, as its data sheet says or `as_measured`."""
    kinds: dict[int, set[str]] = {}
    for device in devices:
        kinds.setdefault(device.node, set()).update(() if device.is_cpu else (device.kind,))
    groups = {node: tuple(sorted(kinds[node])) for node in kinds}
    number = {group: i for i, group in enumerate(dict.fromkeys(groups.values()))}
    named = list(number)

    def slowest(links: list[LinkClass], rate: float | None) -> LinkClass:
        one = min(links, key=lambda link: link.bandwidth_bytes_per_s)
        seconds = one.latency_s if latency_s is None else latency_s
        return LinkClass(rate or one.bandwidth_bytes_per_s, seconds, one.wire)

    def of(group: int) -> list[Machine]:
        return [machine(kind) for kind in named[group]] or [_PCIE]

    return Cluster(
        tuple(devices),
        tiers_of(
            range(len(devices)),
            [device.node for device in devices],
            [number[groups[device.node]] for device in devices],
            lambda a: slowest([machine.inside for machine in of(a)], inside),
            lambda a, b: slowest([machine.between for machine in of(a) + of(b)], between),
        ),
    )
