"""The cluster that settings describe, or make of the one a workload brings."""

from __future__ import annotations

import math
from dataclasses import replace

from explorer.costs.devices import device_of
from explorer.question.accelerators import make_accelerators, next_name, with_caps
from explorer.question.nodes.described import DEFAULT_BANDWIDTH, DEFAULT_LATENCY_S, DEFAULT_NODE_BANDWIDTH
from explorer.question.nodes.wired import (
    Lines,
    Wiring,
    as_measured,
    lines_of,
    machine_of,
    measured_line,
    per_node,
    unmeasured,
    wired,
)
from explorer.question.settings import Settings
from explorer.question.written.device_lists import MAX_DEVICES
from solvers.errors import InvalidProblem
from solvers.formats.workload import Workload
from solvers.problem.cluster import CPU_KIND, Cluster, Device, Wires, two_level_cluster, uniform_cluster

MIN_BANDWIDTH = 1.0
MAX_LATENCY_S = 3600.0
"""Bytes per second, and seconds: beyond them is a typing error, and times overflow."""


def make_cluster(workload: Workload, settings: Settings) -> Cluster:
    """The cluster that is given whole, the workload's own with the settings that are given, or one made of
    settings and defaults; of each accelerator's memory what is not reserved.

    Raises InvalidProblem: no device, an unknown kind, settings that contradict each other, or numbers that are
    out of range.
    """
    _check_keep_free(settings.keep_free_bytes)
    cluster = _described(workload, settings) if settings.cluster is None else _whole(settings.cluster, settings)
    return _kept_free(cluster, settings.keep_free_bytes) if settings.keep_free_bytes else cluster


def _described(workload: Workload, settings: Settings) -> Cluster:
    """The workload's own with the settings that are given, or one made of settings and defaults."""
    _check(settings)
    own = workload.cluster
    accelerators = make_accelerators(workload, settings)
    cpus = _cpus(own, settings)
    if not accelerators and not settings.cpus:
        raise InvalidProblem("--devices 0 leaves no device; give at least one accelerator, or --cpus 1")
    bought = settings.wiring is not Wiring.PLAIN and own is None and settings.links is None and len(accelerators) > 0
    node = per_node([each.kind for each in accelerators], settings.devices_per_node) if bought else None
    devices = _on_nodes(accelerators + cpus, len(accelerators), node or settings.devices_per_node)
    if own is not None and devices == own.devices and not _links_given(settings):
        return own
    if bought:
        between = settings.node_bandwidth_bytes_per_s
        machine = as_measured if settings.wiring is Wiring.MEASURED else machine_of
        return wired(devices, settings.latency_s, settings.bandwidth_bytes_per_s, between, machine)
    bandwidth = settings.bandwidth_bytes_per_s or _first(own, "bandwidth_bytes_per_s", DEFAULT_BANDWIDTH)
    latency = _first(own, "latency_s", DEFAULT_LATENCY_S) if settings.latency_s is None else settings.latency_s
    wires = settings.links or Wires.DEDICATED
    if settings.devices_per_node is None:
        return uniform_cluster(devices, bandwidth, latency, wires)
    between = settings.node_bandwidth_bytes_per_s or DEFAULT_NODE_BANDWIDTH
    return two_level_cluster(devices, bandwidth, latency, between, latency, wires)


def collectives_as_measured(settings: Settings) -> Lines:
    """What collectives were measured to take: on the machine of a profile, or on such as are asked for as measured; not
    where links are described."""
    stated = (settings.bandwidth_bytes_per_s, settings.latency_s, settings.links, settings.cluster)
    if any(value is not None for value in stated):
        return unmeasured
    if settings.profile is not None:
        return lines_of(settings.profile)
    return measured_line if settings.wiring is Wiring.MEASURED else unmeasured


def _whole(cluster: Cluster, settings: Settings) -> Cluster:
    """The cluster that is given, with the caps that are."""
    others = {
        "--devices": settings.devices,
        "--device-kind": settings.device_kind,
        "--cpus": settings.cpus,
        "--bandwidth": settings.bandwidth_bytes_per_s,
        "--latency": settings.latency_s,
        "--links": settings.links,
        "--devices-per-node": settings.devices_per_node,
        "--node-bandwidth": settings.node_bandwidth_bytes_per_s,
    }
    clashing = [flag for flag, value in others.items() if value is not None]
    if clashing:
        raise InvalidProblem(f"--cluster describes every device and link; leave out {', '.join(clashing)}")
    if len(cluster) > MAX_DEVICES:
        raise InvalidProblem(f"the number of devices must be at most {MAX_DEVICES:,}, found {len(cluster):,}")
    in_range = all(
        speed.bandwidth_bytes_per_s >= MIN_BANDWIDTH and speed.latency_s <= MAX_LATENCY_S for speed in cluster.speeds
    )
    for link in () if in_range else cluster.links:  # the first of those that are not is named
        _check_link(f"link {link.src} -> {link.dst}: the bandwidth", link.bandwidth_bytes_per_s, link.latency_s)
    _check_caps(settings)
    accelerators = tuple(device for device in cluster.devices if not device.is_cpu)
    cpus = cluster.devices[len(accelerators) :]
    return replace(cluster, devices=with_caps(accelerators, settings.memory_bytes) + cpus)


def _check_keep_free(nbytes: float) -> None:
    if not 0 <= nbytes < math.inf:
        raise InvalidProblem(f"reserved memory (--keep-free) must be at least 0 bytes, found {nbytes:g}")


def _kept_free(cluster: Cluster, nbytes: float) -> Cluster:
    """The cluster with so much less memory on each accelerator. One without a cap has none afterwards, too."""
    devices = []
    for device in cluster.devices:
        if not device.is_cpu and device.memory_bytes <= nbytes:
            raise InvalidProblem(
                f"--keep-free {nbytes / 2**30:.3g}GiB leaves nothing of {device.name},"
                f" which has {device.memory_bytes / 2**30:.3g} GiB"
            )
        devices.append(device if device.is_cpu else replace(device, memory_bytes=device.memory_bytes - nbytes))
    return replace(cluster, devices=tuple(devices))


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
    _check_caps(settings)
    _check_link("the bandwidth", settings.bandwidth_bytes_per_s, settings.latency_s)
    _check_link("the bandwidth between nodes", settings.node_bandwidth_bytes_per_s, None)
    nodes = settings.devices_per_node is not None or settings.wiring is not Wiring.PLAIN
    if settings.node_bandwidth_bytes_per_s is not None and not nodes:
        raise InvalidProblem("a bandwidth between nodes needs the number of devices per node (--devices-per-node)")


def _check_caps(settings: Settings) -> None:
    given = settings.memory_bytes
    for size in given if isinstance(given, tuple) else (given,):
        if size is not None and not size > 0:
            raise InvalidProblem(f"the memory must be more than 0, found {size}")


def _check_link(what: str, bandwidth_bytes_per_s: float | None, latency_s: float | None) -> None:
    if bandwidth_bytes_per_s is not None and not bandwidth_bytes_per_s >= MIN_BANDWIDTH:
        raise InvalidProblem(f"{what} must be at least {MIN_BANDWIDTH:g} byte/s, found {bandwidth_bytes_per_s:g}")
    if latency_s is not None and not 0 <= latency_s <= MAX_LATENCY_S:
        where = what.removesuffix("the bandwidth")
        raise InvalidProblem(f"{where}the latency must be >= 0 and at most {MAX_LATENCY_S:g} s, found {latency_s:g}")


def _cpus(own: Cluster | None, settings: Settings) -> tuple[Device, ...]:
    there = () if own is None else tuple(d for d in own.devices if d.is_cpu)
    if settings.cpus is None:
        return there
    return tuple(
        there[i] if i < len(there) else replace(there[0], name=next_name(there[0], i)) if there
        else device_of(CPU_KIND, f"CPU {i}")
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
        value is not None
        for value in (settings.bandwidth_bytes_per_s, settings.latency_s, settings.links, settings.devices_per_node)
    )


def _first(cluster: Cluster | None, what: str, default: float) -> float:
    first = None if cluster is None or not cluster.links else cluster.links[0]
    return default if first is None else getattr(first, what)
