"""A cluster described by its nodes, and by what is inside them and between them.

    nodes:
      - {count: 2, devices: 8xH100-80GB, links: {bandwidth: 450GB/s, latency: 2us, wires: device}}
      - {devices: "4xA100-40GB", memory: 40GB, links: {bandwidth: 25GB/s, wires: shared}, out: 12GB/s, in: 25GB/s}
    network: {bandwidth: 50GB/s, latency: 5us, wires: device}
    racks:
      - {nodes: [0, 1], bandwidth: 100GB/s, latency: 3us}

The same in JSON. Everything but ``nodes`` and their ``devices`` may be left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from explorer.costs.devices import DEVICES, device_name, device_of
from explorer.question.written.closest import closest
from explorer.question.written.device_lists import MAX_DEVICES, parse_kinds
from explorer.question.written.quantities import parse_bandwidth, parse_bytes, parse_seconds
from solvers.formats.json_fields import Field
from solvers.problem.cluster import CPU_KIND, Cluster, Device
from solvers.problem.links import LinkClass, Wire, tiers_of

DEFAULT_BANDWIDTH = 25e9
"""Bytes per second and direction, between devices of one host: PCIe 4.0 x16 as measured, about. NVLink is asked
for: six links of 25 GB/s a direction on a V100 (https://www.nvidia.com/en-us/data-center/nvlink/) make 50 GB/s
between any two of four."""
DEFAULT_LATENCY_S = 10e-6
DEFAULT_NODE_BANDWIDTH = 12.5e9
"""Bytes per second from one host to another: 100 Gbit/s."""


_NETWORK = ("bandwidth", "latency", "wires")


class Inside(StrEnum):
    """What carries the transfers inside a node.

    DEDICATED: a link for every ordered pair of devices (NVLinks from each to each). DEVICE: one port a device, for all
    that it sends (a switch that all are joined to). SHARED: one bus for all (PCIe through one root).
    """

    DEDICATED = "dedicated"
    DEVICE = "device"
    SHARED = "shared"


class Between(StrEnum):
    """What carries the transfers between nodes. DEVICE: each device's own adapter, for all that it sends. NODE: one
    adapter a node, for all that it sends. PAIR: a link for every ordered pair of nodes."""

    DEVICE = "device"
    NODE = "node"
    PAIR = "pair"


@dataclass(frozen=True, slots=True)
class Network:
    """What joins some nodes. members: the nodes; None is all of them."""

    bandwidth_bytes_per_s: float
    latency_s: float
    wires: Between
    members: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One host. out_bytes_per_s, in_bytes_per_s: what its adapter sends and takes at most; inf is as the network."""

    kinds: tuple[str, ...]
    memory_bytes: float | None
    cpus: int
    bandwidth_bytes_per_s: float
    latency_s: float
    wires: Inside
    out_bytes_per_s: float
    in_bytes_per_s: float


def is_described(value: object) -> bool:
    """Whether a parsed file is a cluster by its nodes (workloads have "nodes", too, but no devices in them)."""
    nodes = value.get("nodes") if isinstance(value, dict) else None
    return isinstance(nodes, list) and bool(nodes) and all(isinstance(n, dict) and "devices" in n for n in nodes)


def read_described(field: Field) -> Cluster:
    """The cluster, accelerators in the order of their nodes and then CPUs.

    Raises InvalidProblem that names the place in the file.
    """
    parts = field.fields(("nodes",), ("network", "racks"))
    nodes: list[Node] = []
    for item in parts["nodes"].items(MAX_DEVICES):
        count, node = _node(item)
        nodes += [node] * count
        if sum(len(n.kinds) + n.cpus for n in nodes) > MAX_DEVICES or len(nodes) > MAX_DEVICES:
            item.refuse(f"at most {MAX_DEVICES:,} devices in all")
    if not nodes:
        parts["nodes"].refuse("at least one node")
    usual = Network(DEFAULT_NODE_BANDWIDTH, DEFAULT_LATENCY_S, Between.PAIR)
    fields = parts["network"].fields((), _NETWORK) if "network" in parts else {}
    everywhere = _network(fields, usual)
    racks = parts["racks"].items(MAX_DEVICES) if "racks" in parts else ()
    networks = [*(_rack(item, len(nodes), everywhere) for item in racks), everywhere]
    return field.located(lambda: cluster_of(nodes, networks))


def cluster_of(nodes: list[Node], networks: list[Network]) -> Cluster:
    """Devices and all links between them. networks: the first that holds both nodes joins them."""
    devices = [(kind, n) for n, node in enumerate(nodes) for kind in node.kinds]
    devices += [(CPU_KIND, n) for n, node in enumerate(nodes) for _ in range(node.cpus)]
    accelerators = sum(len(node.kinds) for node in nodes)
    made = tuple(
        _device(device_name(kind, i if i < accelerators else i - accelerators), kind, n, nodes[n])
        for i, (kind, n) in enumerate(devices)
    )
    on = [device.node for device in made]
    joined = [(node, tuple(n.members is None or i in n.members for n in networks)) for i, node in enumerate(nodes)]
    number: dict[object, int] = {}
    group = [number.setdefault(one, len(number)) for one in joined]
    node_of = {group: node for group, (node, _) in zip(group, joined, strict=True)}
    networks_of = {group: member for group, (_, member) in zip(group, joined, strict=True)}

    def between(a: int, b: int) -> LinkClass:
        both = zip(networks, networks_of[a], networks_of[b], strict=True)
        of = next(network for network, *members in both if all(members))
        rate = min(of.bandwidth_bytes_per_s, node_of[a].out_bytes_per_s, node_of[b].in_bytes_per_s)
        return LinkClass(rate, of.latency_s, _BETWEEN[of.wires])

    def within(a: int) -> LinkClass:
        return LinkClass(node_of[a].bandwidth_bytes_per_s, node_of[a].latency_s, _INSIDE[node_of[a].wires])

    return Cluster(made, tiers_of(range(len(made)), on, [group[node] for node in on], within, between))


_INSIDE = {Inside.DEDICATED: Wire.PAIR, Inside.DEVICE: Wire.PORT, Inside.SHARED: Wire.HOST}
_BETWEEN = {Between.DEVICE: Wire.ADAPTER, Between.NODE: Wire.NODE, Between.PAIR: Wire.NODES}


def _device(name: str, kind: str, node: int, of: Node) -> Device:
    made = device_of(kind, name, node)
    return made if of.memory_bytes is None or made.is_cpu else replace(made, memory_bytes=of.memory_bytes)


def _node(field: Field) -> tuple[int, Node]:
    parts = field.fields(("devices",), ("count", "memory", "cpus", "links", "out", "in"))
    count = parts["count"].integer(1, MAX_DEVICES) if "count" in parts else 1
    text = parts["devices"].text()
    kinds = parts["devices"].located(lambda: parse_kinds(text))
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    for kind in kinds:
        if kind not in DEVICES or kind == CPU_KIND:
            known = [name for name in DEVICES if name != CPU_KIND]
            parts["devices"].refuse(f"kinds of {', '.join(known)}{closest(kind, known)}")
    links = parts["links"].fields((), ("bandwidth", "latency", "wires")) if "links" in parts else {}
    return count, Node(
        kinds,
        _amount(parts["memory"], parse_bytes) if "memory" in parts else None,
        parts["cpus"].integer(0, MAX_DEVICES) if "cpus" in parts else 0,
        _amount(links["bandwidth"], parse_bandwidth) if "bandwidth" in links else DEFAULT_BANDWIDTH,
        _amount(links["latency"], parse_seconds, zero=True) if "latency" in links else DEFAULT_LATENCY_S,
        links["wires"].choice(Inside) if "wires" in links else Inside.DEDICATED,
        _amount(parts["out"], parse_bandwidth) if "out" in parts else math.inf,
        _amount(parts["in"], parse_bandwidth) if "in" in parts else math.inf,
    )


def _network(fields: Mapping[str, Field], around: Network, members: frozenset[int] | None = None) -> Network:
    """What is not stated is as in the network around."""
    return Network(
        _amount(fields["bandwidth"], parse_bandwidth) if "bandwidth" in fields else around.bandwidth_bytes_per_s,
        _amount(fields["latency"], parse_seconds, zero=True) if "latency" in fields else around.latency_s,
        fields["wires"].choice(Between) if "wires" in fields else around.wires,
        members,
    )


def _rack(field: Field, nodes: int, around: Network) -> Network:
    fields = field.fields(("nodes",), _NETWORK)
    members = frozenset(item.integer(0, nodes - 1) for item in fields["nodes"].items(MAX_DEVICES))
    return _network(fields, around, members)


def _amount(field: Field, parse: Callable[[str], float], *, zero: bool = False) -> float:
    """A number of SI units, or a text with its unit."""
    if isinstance(field.value, str):
        text = field.text(100)
        return field.located(lambda: parse(text))
    amount = field.number()
    if amount <= 0 and not zero:
        field.refuse("more than 0")
    return amount
