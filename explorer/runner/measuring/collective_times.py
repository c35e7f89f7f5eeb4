"""How long collectives among ranks of a host take: each kind at many sizes, and the line through the best of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.distributed as dist

from explorer.costs.least_squares import coefficients
from explorer.costs.profile import COLLECTIVES, CollectiveTimes
from explorer.runner.measuring.link_times import FASTEST
from explorer.runner.measuring.place import reduced
from explorer.runner.model.exchanges.group import Along, Members

SIZES = tuple(2**power for power in range(12, 25, 3))
"""Bytes of the whole tensor: 4 KiB to 16 MiB."""
REPEATS = 12


def group_sizes(hosts: Sequence[str]) -> list[int]:
    """Powers of two from 2 up to as many ranks as begin on the first host."""
    alike = next((rank for rank, host in enumerate(hosts) if host != hosts[0]), len(hosts))
    return [2**power for power in range(1, alike.bit_length()) if 2**power <= alike]


def measure_collectives(
    rank: int,
    hosts: Sequence[str],
    device: torch.device,
    sizes: Sequence[int] = SIZES,
    now: Callable[[], float] = time.perf_counter,
) -> tuple[CollectiveTimes, ...]:
    """Every rank of the default process group must call it, and gets the same. Groups are the first ranks of the first
    host; the others wait."""
    collectives = []
    for count in group_sizes(hosts):
        process_group = dist.new_group(list(range(count)))
        assert process_group is not None
        for kind in COLLECTIVES:
            best = [0.0] * len(sizes)
            dist.barrier()
            if rank < count:
                members = Members(rank, count, process_group)
                best = [_best(members, kind, size, device, now) for size in sizes]
            seconds = reduced(best, device, dist.ReduceOp.MAX)
            steps, share = (2 if kind == "all_reduce" else 1) * (count - 1), (count - 1) / count
            sent = [share * size * (2 if kind == "all_reduce" else 1) for size in sizes]
            latency, bandwidth = fit(steps, sent, seconds)
            collectives.append(CollectiveTimes(kind, count, tuple(sizes), tuple(seconds), latency, bandwidth))
    return tuple(collectives)


def fit(steps: int, sent_bytes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """(latency_s of each of so many steps, bytes/s) of the line whose relative errors have the least sum of squares."""
    columns = np.column_stack([np.full(len(sent_bytes), float(steps)), sent_bytes])
    latency, per_byte = (float(one) for one in coefficients(columns, np.array(seconds)))
    return latency, 1 / max(per_byte, 1 / FASTEST)


def _best(members: Members, kind: str, nbytes: int, device: torch.device, now: Callable[[], float]) -> float:
    """The fastest of some, called as a run calls them."""
    whole = torch.zeros(members.members, nbytes // 4 // members.members, device=device)
    calls: dict[str, Callable[[], torch.Tensor]] = {
        "all_reduce": lambda: members.add_up(whole),
        "reduce_scatter": lambda: members.scatter_sum(whole, Along(0)),
    }
    best = float("inf")
    for done in range(REPEATS):
        before = now()
        calls[kind]()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if done:  # the first makes room
            best = min(best, now() - before)
    return best
