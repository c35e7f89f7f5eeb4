"""Compute times, links and memory as a profile measured them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from explorer.costs.devices import CPU_CORE, DEVICES
from explorer.costs.profile import LinkTimes, Profile
from explorer.words import text
from solvers.errors import InvalidProblem
from solvers.formats.op_graph_json import graph_hash
from solvers.formats.workload import Workload
from solvers.problem.cluster import CPU_KIND, Cluster, Device, Link
from solvers.problem.graph import OpGraph, Phase
from solvers.problem.problem import ComputeTable, Optimizer

UPDATED_AS = {
    Optimizer.NONE: "sgd",
    Optimizer.SGD: "sgd",
    Optimizer.MOMENTUM: "sgd",
    Optimizer.ADAM: "adam",
    Optimizer.ADAMW: "adam",
    Optimizer.ADAFACTOR: "adam",
}
"""Whose measured step is taken: without an optimizer's states a step still adds the gradients; a velocity adds one
reading and writing to SGD's, and AdamW goes through memory as Adam does."""


def kind_of(profile: Profile) -> str:
    """The kind of the devices measured, as no catalogue calls its own: "measured-intel-r-xeon-r-processor"."""
    slug = re.sub(r"[^a-z0-9.]+", "-", profile.hardware[0].lower()).strip("-")
    return f"measured-{slug[:60] or 'device'}"


def label(profile: Profile) -> str:
    """For `Problem.costs_from`: "measured on 2 x Xeon, 1 thread each, fp32, 1 to 16 samples, 2026-11-21"."""
    threads = "" if profile.backend == "nccl" else f", {profile.threads} thread{'s' * (profile.threads > 1)} each"
    on = text.counted(sorted(profile.hardware), "x")
    counts = f"{profile.samples[0]} to {profile.samples[-1]} samples"
    return f"measured on {on}{threads}, {profile.dtype}, {counts}, {profile.date[:10]}"


def check_graph(graph: OpGraph, profile: Profile) -> None:
    """Raises InvalidProblem unless the profile is of this very graph."""
    sha256 = graph_hash(graph)
    if sha256 != profile.graph_sha256:
        phase = "training" if profile.training else "inference"
        raise InvalidProblem(
            f"the profile is of another graph: it measured {profile.reference} in {profile.dtype} for {phase}"
            f" (sha256 {profile.graph_sha256[:12]}...), and this one is {graph.name} (sha256 {sha256[:12]}...);"
            " measure this one with `placement-explorer calibrate`"
        )
    measured = {times.name for times in profile.operators}
    for operator in graph.operators:
        if operator.phase is not Phase.UPDATE and operator.name not in measured:
            raise InvalidProblem(f"the profile has no times of operator {operator.name!r}; calibrate again")


def compute_table(graph: OpGraph, profile: Profile, optimizer: Optimizer) -> ComputeTable:
    """Seconds of every operator at the sample counts measured, on a device of `kind_of`: its share of what the whole
    graph took (`to_wholes`).

    Beyond the counts a `ComputeTable` extends the line through the last two. Raises InvalidProblem if the
    profile is of another graph, or has no times of the optimizer's steps.
    """
    check_graph(graph, profile)
    measured = to_wholes(graph, profile)
    updates = profile.updates.get(UPDATED_AS[optimizer], {})
    rows = []
    for operator in graph.operators:
        if operator.phase is not Phase.UPDATE:
            rows.append(measured[operator.name])
            continue
        if operator.name not in updates:
            raise InvalidProblem(f"the profile has no times of {UPDATED_AS[optimizer]} for {operator.name!r}")
        rows.append((updates[operator.name],) * len(profile.samples))
    return ComputeTable(profile.samples, {kind_of(profile): np.array(rows, dtype=np.float64)})


def to_wholes(graph: OpGraph, profile: Profile) -> dict[str, tuple[float, ...]]:
    """Operator -> seconds at every count, those of the forward and of the backward scaled so that together they take
    what the graph took without marks.

    By themselves they are too short or too long together: each is the lower quartile of its own times, and the sum of
    lower quartiles is below the lower quartile of sums wherever operators are not disturbed all at once; on the other
    side a mark costs more amid a graph than in the loop that measured its cost, and that is taken off.
    """
    phase_of = {operator.name: operator.phase for operator in graph.operators}
    forward, backward = [], []
    for whole in profile.wholes:
        forward.append(_share(whole.forward_s, whole.operators_forward_s))
        backward.append(_share(whole.backward_s, whole.operators_backward_s))
    return {
        times.name: tuple(
            seconds * factor
            for seconds, factor in zip(
                times.seconds, forward if phase_of.get(times.name) is Phase.FORWARD else backward, strict=True
            )
        )
        for times in profile.operators
    }


def _share(whole_s: float, operators_s: float) -> float:
    return whole_s / operators_s if whole_s > 0 and operators_s > 0 else 1.0


def measured_cluster(profile: Profile) -> Cluster:
    """The ranks as devices, with the memory that each could use and the links between them.

    A pair that was not measured is taken to be like those that join the same host, or else two hosts, on
    average; a cluster of one device has no link.
    """
    kind, hosts = kind_of(profile), list(dict.fromkeys(profile.hosts))
    stem = "GPU" if profile.backend == "nccl" else "process"
    devices = tuple(
        Device(f"{stem} {rank}", kind, memory, node=hosts.index(profile.hosts[rank]))
        for rank, memory in enumerate(profile.memory_bytes)
    )
    return Cluster(devices, links_between([device.node for device in devices], profile))


def as_catalogued(cluster: Cluster, profile: Profile) -> Cluster:
    """The measured cluster with the catalogue's kinds for its devices, so that models which were not measured can be
    planned for it. Raises InvalidProblem if the catalogue has no such device."""
    devices = []
    for device, hardware in zip(cluster.devices, profile.hardware, strict=True):
        kind = catalogue_kind(hardware)
        if kind is None:
            known = ", ".join(name for name in DEVICES if name != CPU_KIND)
            raise InvalidProblem(
                f"there are no costs of {hardware[:80]!r} for models that were not measured; known are {known}"
            )
        devices.append(replace(device, kind=kind, flops_per_s=max(DEVICES[kind].peak_flops_per_s.values())))
    return replace(cluster, devices=tuple(devices))


def catalogue_kind(hardware: str) -> str | None:
    """ "NVIDIA H200" -> "H200-141GB": the catalogue's kind whose model (and memory, where it says so) is in the name;
    what is no GPU is a core, to which a process is pinned; None for a GPU that the catalogue does not have."""
    words = re.split(r"[^a-z0-9]+", hardware.lower())
    if not any(word in ("nvidia", "tesla", "geforce", "amd") for word in words) or "epyc" in words or "ryzen" in words:
        return CPU_CORE
    named = [name for name in DEVICES if name.lower().split("-")[0] in words]
    sized = [name for name in named if name.lower().rsplit("-", 1)[-1] in words]
    return next(iter(sized or named), None)


def links_between(nodes: list[int], profile: Profile) -> tuple[Link, ...]:
    """A link for every ordered pair of devices, the first of which are the ranks measured; nodes: the host
    of each. Empty if no link was measured."""
    if not profile.links:
        return ()
    measured = {(link.src, link.dst): link for link in profile.links}
    inside = [link for link in profile.links if profile.hosts[link.src] == profile.hosts[link.dst]]
    across = [link for link in profile.links if profile.hosts[link.src] != profile.hosts[link.dst]]
    links = []
    for src, node in enumerate(nodes):
        for dst, other in enumerate(nodes):
            if src == dst:
                continue
            known = measured.get((src, dst)) or measured.get((dst, src))
            if known is not None:
                bandwidth, latency = known.bandwidth_bytes_per_s, known.latency_s
            else:
                bandwidth, latency = _typical((inside if node == other else across) or list(profile.links))
            links.append(Link(src, dst, bandwidth, latency))
    return tuple(links)


def measured_workload(workload: Workload, profile: Profile, optimizer: Optimizer) -> Workload:
    """The same graph with what was measured in place of what is estimated. Raises InvalidProblem."""
    if workload.compute is not None:
        raise InvalidProblem(f"{workload.reference}: states its own compute times, so a profile cannot replace them")
    return replace(
        workload,
        compute=compute_table(workload.graph, profile, optimizer),
        cluster=measured_cluster(profile),
        costs_from=label(profile),
    )


def _typical(links: list[LinkTimes]) -> tuple[float, float]:
    """(bandwidth, latency): means of seconds per byte and of latency."""
    per_byte = sum(1 / link.bandwidth_bytes_per_s for link in links) / len(links)
    return 1 / per_byte, sum(link.latency_s for link in links) / len(links)
