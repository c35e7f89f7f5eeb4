"""How long messages between ranks take: to and fro at many sizes, and the line through the best of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.distributed as dist

from explorer.costs.least_squares import coefficients
from explorer.costs.profile import LinkTimes

SIZES = tuple(2**power for power in range(10, 25, 2))
"""Bytes: 1 KiB to 16 MiB."""
REPEATS = 40
LEAST_REPEATS = 5
SIZE_S = 0.15
"""Seconds for one size, unless the least repeats take longer."""
FASTEST = 1e15
"""Bytes per second: where times do not grow with the size, the bandwidth is not known."""


def fit(nbytes: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """(latency_s, bandwidth_bytes_per_s) of the line whose relative errors have the least sum of squares.

    Relative, so that a large message does not drown the small ones, of which the latency is made. The
    latency is never below 0.
    """
    if not nbytes or len(nbytes) != len(seconds) or min(seconds) <= 0:
        raise ValueError(f"a fit needs as many times as sizes, all above 0; found {list(nbytes)} and {list(seconds)}")
    columns = np.column_stack([np.ones(len(nbytes)), nbytes])
    latency, per_byte = (float(one) for one in coefficients(columns, np.array(seconds)))
    return latency, 1 / max(per_byte, 1 / FASTEST)


def pairs(hosts: Sequence[str], backend: str) -> list[tuple[int, int]]:
    """Which pairs of ranks to measure, the lower rank first: every one between GPUs, which may be wired in
    many ways; else one inside each host and one between each two."""
    every = [(src, dst) for src in range(len(hosts)) for dst in range(src + 1, len(hosts))]
    if backend == "nccl":
        return every
    first: dict[tuple[str, str], tuple[int, int]] = {}
    for src, dst in every:
        first.setdefault((hosts[src], hosts[dst]), (src, dst))
    return sorted(first.values())


def measure_links(
    rank: int,
    hosts: Sequence[str],
    device: torch.device,
    sizes: Sequence[int] = SIZES,
    now: Callable[[], float] = time.perf_counter,
    on_pair: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[LinkTimes, ...]:
    """Every rank of the default process group must call it. Rank 0 gets the links, other ranks an empty tuple.

    One pair after the other, the others wait: a link is measured without others beside it.
    """
    backend = str(dist.get_backend())
    wanted = pairs(hosts, backend)
    links = []
    for done, (src, dst) in enumerate(wanted):
        on_pair(done, len(wanted))
        dist.barrier()
        best = torch.zeros(len(sizes), dtype=torch.float64, device=device)
        if rank in (src, dst):
            peer = dst if rank == src else src
            for i, size in enumerate(sizes):
                seconds = _to_and_fro(size, peer, first=rank == src, device=device, now=now)
                best[i] = seconds / 2 if rank == src else 0.0
        dist.all_reduce(best)
        seconds_each = [float(value) for value in best.tolist()]
        latency, bandwidth = fit(sizes, seconds_each)
        links.append(LinkTimes(src, dst, tuple(sizes), tuple(seconds_each), latency, bandwidth))
    return tuple(links) if rank == 0 else ()


def _to_and_fro(size: int, peer: int, *, first: bool, device: torch.device, now: Callable[[], float]) -> float:
    """The fastest of some messages there and back, each posted by itself, as torch's runtime posts those of a run."""
    out, back = torch.zeros(size, dtype=torch.uint8, device=device), torch.empty(size, dtype=torch.uint8, device=device)
    best, spent, repeats = float("inf"), 0.0, REPEATS
    done = 0
    while done < repeats:
        before = now()
        for way in ("send", "receive") if first else ("receive", "send"):
            work = dist.isend(out, peer) if way == "send" else dist.irecv(back, peer)
            assert work is not None
            work.wait()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        took = now() - before
        done += 1
        if done > 1:  # the first message of a size makes room for it
            best, spent = min(best, took), spent + took
        if done == LEAST_REPEATS:  # both sides must agree on how many there will be
            repeats = _agreed(spent / max(1, done - 1), peer, first, device)
    return best


def _agreed(each_s: float, peer: int, first: bool, device: torch.device) -> int:
    """How many repeats fit into the time of one size, as the first of the two says."""
    count = torch.zeros(1, dtype=torch.int64, device=device)
    if first:
        count.fill_(max(LEAST_REPEATS, min(REPEATS, int(SIZE_S / max(each_s, 1e-9)))))
        dist.send(count, peer)
    else:
        dist.recv(count, peer)
    return int(count.item())
