"""Tiny named instances that a person can check by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.problem.cluster import Device, uniform_cluster
from solvers.problem.graph import Amount, Operator, OpGraph, Phase, Tensor
from solvers.problem.problem import ComputeTable, Problem

GPU = "gpu"


def devices(count: int, memory: float = float("inf"), cpus: int = 0) -> tuple[Device, ...]:
    return tuple(Device(f"GPU {i}", GPU, memory) for i in range(count)) + tuple(
        Device(f"CPU {i}", "cpu") for i in range(cpus)
    )


def _letter(number: int) -> str:
    """ "a" to "z", then "a1" and so on."""
    return chr(ord("a") + number % 26) + (str(number // 26) if number >= 26 else "")


def forward_graph(edges: Sequence[tuple[int, int]], count: int, nbytes: float = 0.0, **sizes: float) -> OpGraph:
    """``count`` forward operators "a", "b", ...; one tensor per operator that has successors."""
    names = [_letter(i) for i in range(count)]
    operators = tuple(
        Operator(name, param_bytes=sizes.get("param_bytes", 0.0), saved_bytes=Amount(0, sizes.get("saved", 0.0)))
        for name in names
    )
    return OpGraph(operators, tuple(_tensors(edges, nbytes)))


def _tensors(edges: Sequence[tuple[int, int]], nbytes: float) -> list[Tensor]:
    readers: dict[int, list[int]] = {}
    for u, v in edges:
        readers.setdefault(u, []).append(v)
    return [Tensor(u, tuple(vs), Amount(0, nbytes)) for u, vs in sorted(readers.items())]


def training_graph(
    edges: Sequence[tuple[int, int]], count: int, nbytes: float = 0.0, param_bytes: float = 0.0, saved: float = 0.0
) -> OpGraph:
    """Forward operators a, b, ... and one backward operator a', b', ... each, mirrored edges."""
    forward = [Operator(_letter(i), param_bytes=param_bytes, saved_bytes=Amount(0, saved)) for i in range(count)]
    backward = [Operator(f"{o.name}'", phase=Phase.BACKWARD_INPUT, forward_of=i) for i, o in enumerate(forward)]
    tensors = _tensors(edges, nbytes)
    outdegree = {u: sum(1 for a, _ in edges if a == u) for u, _ in edges}
    for u, v in edges:
        group = u if outdegree[u] > 1 else None
        tensors.append(Tensor(count + v, (count + u,), Amount(0, nbytes), sum_group=group))
    tensors += [Tensor(i, (count + i,)) for i in range(count)]
    return OpGraph(tuple(forward + backward), tuple(tensors))


def problem(
    graph: OpGraph,
    seconds: Sequence[float],
    gpus: int = 2,
    *,
    cpus: int = 0,
    memory: float = float("inf"),
    cpu_seconds: Sequence[float] | None = None,
    bandwidth: float = 1.0,
    latency: float = 0.0,
    **options: object,
) -> Problem:
    """A problem with ``seconds`` per sample and operator on GPUs (and ``cpu_seconds`` on CPUs)."""
    table = {GPU: np.array(seconds, float)[:, None]}
    if cpus:
        table["cpu"] = np.array(cpu_seconds if cpu_seconds is not None else seconds, float)[:, None]
    cluster = uniform_cluster(devices(gpus, memory, cpus), bandwidth, latency)
    return Problem(graph, cluster, ComputeTable((1,), table), **options)  # type: ignore[arg-type]
