"""The all-reduce of gradients among replicas, on plain arrays: `solvers.problem.cluster.Ring` for kernels."""

from __future__ import annotations

from solvers.kernels.lazy import njit


@njit(cache=True)
def ring_steps(replicas: int) -> int:
    """Messages that every link carries, one after the other."""
    return 2 * (replicas - 1)


@njit(cache=True)
def ring_bytes(replicas: int, nbytes: float) -> float:
    """What every link moves of ``nbytes`` of gradients."""
    return ring_steps(replicas) / replicas * nbytes


@njit(cache=True)
def ring_s(replicas: int, nbytes: float, latency_s: float, bandwidth_bytes_per_s: float) -> float:
    """Seconds that it takes on a link."""
    return ring_steps(replicas) * latency_s + ring_bytes(replicas, nbytes) / bandwidth_bytes_per_s
