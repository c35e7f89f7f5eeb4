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
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from explorer.costs.devices import DEVICES
from explorer.question.written.closest import closest
from explorer.question.written.device_lists import MAX_DEVICES, parse_kinds
from explorer.question.written.quantities import parse_bandwidth, parse_bytes, parse_seconds
from solvers.formats.json_fields import Field
from solvers.problem.cluster import CPU_KIND, Cluster, Device, Link

BANDWIDTH = 25e9
NETWORK_BANDWIDTH = 12.5e9
LATENCY_S = 10e-6
"""What is not said: PCIe 4.0 x16 as measured, about; 100 Gbit/s."""


class Inside(StrEnum):
    """What carries the transfers inside a node.

    DEDICATED: a wire for every ordered pair of devices (NVLinks from each to each). DEVICE: one port a device, for all
    that it sends (a switch that all are joined to). SHARED: one wire for all (PCIe through one root).
    """

    DEDICATED = "dedicated"
    DEVICE = "device"
    SHARED = "shared"


class Between(StrEnum):
    """What carries the transfers between nodes. DEVICE: each device's own adapter, for all that it sends. NODE: one
    adapter a node, for all that it sends. PAIR: a wire for every ordered pair of nodes."""

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
    everywhere = _network(parts.get("network", Field({}, field, "network")), NETWORK_BANDWIDTH, LATENCY_S)
    racks = (
        [_rack(item, len(nodes), everywhere) for item in parts["racks"].items(MAX_DEVICES)] if "racks" in parts else []
    )
    return field.located(lambda: cluster_of(nodes, [*racks, everywhere]))


def cluster_of(nodes: list[Node], networks: list[Network]) -> Cluster:
    """Devices and all links between them. networks: the first that holds both nodes joins them."""
    devices = [(kind, n) for n, node in enumerate(nodes) for kind in node.kinds]
    devices += [(CPU_KIND, n) for n, node in enumerate(nodes) for _ in range(node.cpus)]
    accelerators = sum(len(node.kinds) for node in nodes)
    made = tuple(
        _device(f"GPU {i}" if i < accelerators else f"CPU {i - accelerators}", kind, n, nodes[n])
        for i, (kind, n) in enumerate(devices)
    )
    links = [
        _link(src, dst, a.node, b.node, nodes, networks)
        for src, a in enumerate(made)
        for dst, b in enumerate(made)
        if src != dst
    ]
    return Cluster(made, tuple(links))


def _device(name: str, kind: str, node: int, of: Node) -> Device:
    spec = DEVICES[kind]
    capped = of.memory_bytes is not None and kind != CPU_KIND
    return Device(
        name,
        kind,
        of.memory_bytes if capped and of.memory_bytes is not None else spec.memory_bytes,
        max(spec.peak_flops_per_s.values()),
        spec.memory_bytes_per_s,
        node=node,
    )


def _link(src: int, dst: int, a: int, b: int, nodes: list[Node], networks: list[Network]) -> Link:
    if a == b:
        inside = nodes[a]
        wire = {Inside.DEDICATED: f"{src}->{dst}", Inside.DEVICE: f"port {src}", Inside.SHARED: f"host {a} root"}
        return Link(src, dst, inside.bandwidth_bytes_per_s, inside.latency_s, wire[inside.wires])
    joined = next(n for n in networks if n.members is None or {a, b} <= n.members)
    bandwidth = min(joined.bandwidth_bytes_per_s, nodes[a].out_bytes_per_s, nodes[b].in_bytes_per_s)
    wires = {Between.DEVICE: f"adapter {src}", Between.NODE: f"node{a} adapter", Between.PAIR: f"node{a}->node{b}"}
    return Link(src, dst, bandwidth, joined.latency_s, wires[joined.wires])


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
        _amount(links["bandwidth"], parse_bandwidth) if "bandwidth" in links else BANDWIDTH,
        _amount(links["latency"], parse_seconds, zero=True) if "latency" in links else LATENCY_S,
        links["wires"].choice(Inside) if "wires" in links else Inside.DEDICATED,
        _amount(parts["out"], parse_bandwidth) if "out" in parts else math.inf,
        _amount(parts["in"], parse_bandwidth) if "in" in parts else math.inf,
    )


def _network(field: Field, bandwidth: float, latency: float) -> Network:
    parts = field.fields((), ("bandwidth", "latency", "wires"))
    return Network(
        _amount(parts["bandwidth"], parse_bandwidth) if "bandwidth" in parts else bandwidth,
        _amount(parts["latency"], parse_seconds, zero=True) if "latency" in parts else latency,
        parts["wires"].choice(Between) if "wires" in parts else Between.PAIR,
    )


def _rack(field: Field, nodes: int, around: Network) -> Network:
    parts = field.fields(("nodes",), ("bandwidth", "latency", "wires"))
    members = frozenset(item.integer(0, nodes - 1) for item in parts["nodes"].items(MAX_DEVICES))
    own = {key: part for key, part in parts.items() if key != "nodes"}
    found = _network(
        Field({key: part.value for key, part in own.items()}, field.where),
        around.bandwidth_bytes_per_s,
        around.latency_s,
    )
    return Network(
        found.bandwidth_bytes_per_s, found.latency_s, found.wires if "wires" in own else around.wires, members
    )


def _amount(field: Field, parse: Callable[[str], float], *, zero: bool = False) -> float:
    """A number of SI units, or a text with its unit."""
    if isinstance(field.value, str):
        text = field.text(100)
        return field.located(lambda: parse(text))
    found = field.number()
    if found <= 0 and not zero:
        field.refuse("more than 0")
    return found
