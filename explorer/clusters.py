"""The cluster that settings describe, or make of the one a workload brings."""

from __future__ import annotations

from dataclasses import replace

from explorer.costs.devices import DEVICES
from explorer.pins import closest
from explorer.settings import Settings
from solvers.cluster import CPU_KIND, Cluster, Device, Link, two_level_cluster, uniform_cluster
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload

DEFAULT_DEVICES = 4
MAX_DEVICES = 1024
"""Every pair has a link, and every planner looks at all of them."""
DEFAULT_KIND = "H100-80GB"
DEFAULT_BANDWIDTH = 25e9
"""Bytes per second and direction, between devices of one host: PCIe 4.0 x16 as measured, about. NVLink is asked
for: six links of 25 GB/s a direction on a V100 (https://www.nvidia.com/en-us/data-center/nvlink/) make 50 GB/s
between any two of four."""
DEFAULT_LATENCY_S = 10e-6
DEFAULT_NODE_BANDWIDTH = 12.5e9
"""Bytes per second from one host to another: 100 Gbit/s."""


def make_cluster(workload: Workload, settings: Settings) -> Cluster:
    """The workload's own cluster with the settings that are given, or one made of settings and defaults.

    Raises InvalidProblem: no device, an unknown kind, or numbers that are out of range.
    """
    _check(settings)
    own = workload.cluster
    accelerators = _accelerators(workload, settings)
    cpus = _cpus(own, settings)
    if not accelerators and not settings.cpus:
        raise InvalidProblem("--devices 0 leaves no device; give at least one accelerator, or --cpus 1")
    devices = _on_nodes(accelerators + cpus, len(accelerators), settings.devices_per_node)
    if own is not None and devices == own.devices and not _links_given(settings):
        return own
    bandwidth = settings.bandwidth_bytes_per_s or _first(own, "bandwidth_bytes_per_s", DEFAULT_BANDWIDTH)
    latency = _first(own, "latency_s", DEFAULT_LATENCY_S) if settings.latency_s is None else settings.latency_s
    if settings.devices_per_node is None:
        return uniform_cluster(devices, bandwidth, latency)
    between = settings.node_bandwidth_bytes_per_s or DEFAULT_NODE_BANDWIDTH
    return two_level_cluster(devices, bandwidth, latency, between, latency)


def _check(settings: Settings) -> None:
    for what, count, least in (
        ("devices", settings.devices, 0),
        ("cpus", settings.cpus, 0),
        ("devices per node", settings.devices_per_node, 1),
    ):
        if count is not None and count < least:
            raise InvalidProblem(f"the number of {what} must be at least {least}, found {count}")
        if count is not None and count > MAX_DEVICES:
            raise InvalidProblem(f"the number of {what} must be at most {MAX_DEVICES:,}, found {count:,}")
    for what, value in (
        ("memory", settings.memory_bytes),
        ("bandwidth", settings.bandwidth_bytes_per_s),
        ("bandwidth between nodes", settings.node_bandwidth_bytes_per_s),
    ):
        if value is not None and not value > 0:
            raise InvalidProblem(f"the {what} must be more than 0, found {value}")
    if settings.node_bandwidth_bytes_per_s is not None and settings.devices_per_node is None:
        raise InvalidProblem("a bandwidth between nodes needs the number of devices per node (--devices-per-node)")


def _accelerators(workload: Workload, settings: Settings) -> tuple[Device, ...]:
    own = () if workload.cluster is None else tuple(d for d in workload.cluster.devices if not d.is_cpu)
    default = len(own) if workload.cluster is not None else DEFAULT_DEVICES
    count = default if settings.devices is None else settings.devices
    kind = settings.device_kind
    if own and kind in (None, own[0].kind):
        made = tuple(own[i] if i < len(own) else replace(own[0], name=_next_name(own[0], i)) for i in range(count))
    else:
        made = tuple(_device(_known_kind(kind or _stated_kind(workload), workload), f"GPU {i}") for i in range(count))
    if settings.memory_bytes is not None:
        made = tuple(replace(device, memory_bytes=settings.memory_bytes) for device in made)
    return made


def _next_name(first: Device, position: int) -> str:
    """Named like the workload's own: "FPGA 0" gives "FPGA 6"."""
    stem = first.name.rstrip("0123456789")
    return f"{stem or 'device '}{position}"


def _stated_kind(workload: Workload) -> str:
    stated = [] if workload.compute is None else [kind for kind in workload.compute.seconds if kind != CPU_KIND]
    return stated[0] if stated and DEFAULT_KIND not in stated else DEFAULT_KIND


def _known_kind(kind: str, workload: Workload) -> str:
    if kind == CPU_KIND:
        raise InvalidProblem("device kind 'cpu' is not an accelerator; ask for CPUs with --devices 0 --cpus 1")
    known = list(DEVICES) if workload.compute is None else list(workload.compute.seconds)
    if kind not in known:
        there = ", ".join(name for name in known if name != CPU_KIND)
        where = "" if workload.compute is None else " with compute times in this workload"
        raise InvalidProblem(f"no device kind {kind!r}{where}; there are: {there}{closest(kind, known)}")
    return kind


def _device(kind: str, name: str) -> Device:
    if kind not in DEVICES:  # a kind that a workload states the times of, and nothing else
        return Device(name, kind)
    spec = DEVICES[kind]
    flops = max(spec.peak_flops_per_s.values())
    return Device(name, kind, spec.memory_bytes, flops, spec.memory_bytes_per_s)


def _cpus(own: Cluster | None, settings: Settings) -> tuple[Device, ...]:
    there = () if own is None else tuple(d for d in own.devices if d.is_cpu)
    if settings.cpus is None:
        return there
    return tuple(
        there[i] if i < len(there) else replace(there[0], name=_next_name(there[0], i)) if there
        else _device(CPU_KIND, f"CPU {i}")
        for i in range(settings.cpus)
    )  # fmt: skip


def _on_nodes(devices: tuple[Device, ...], accelerators: int, per_node: int | None) -> tuple[Device, ...]:
    """Accelerators fill one node after the other; CPUs go round the nodes."""
    if per_node is None:
        return devices
    nodes = max(1, -(-accelerators // per_node))
    return tuple(
        replace(device, node=i // per_node if i < accelerators else (i - accelerators) % nodes)
        for i, device in enumerate(devices)
    )


def _links_given(settings: Settings) -> bool:
    return any(
        value is not None for value in (settings.bandwidth_bytes_per_s, settings.latency_s, settings.devices_per_node)
    )


def _first(cluster: Cluster | None, what: str, default: float) -> float:
    links: tuple[Link, ...] = () if cluster is None else cluster.links
    return getattr(links[0], what) if links else default
