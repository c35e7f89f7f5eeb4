"""A rank among the others that measure at the same time, what memory it could still use, and how quiet it is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

import torch
import torch.distributed as dist

REPEATS = 30
PIECE_S = 5e-3
"""About how long one piece takes: as long as a step of a plan that is worth running."""
WIDTH = 192
"""Of the square matrices: they stay in the cache of a core, so that memory is not what is measured."""
BEST_SHARE = 0.5


def reduced(
    values: Sequence[float],
    device: torch.device,
    how: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM,
    group: dist.ProcessGroup | None = None,
) -> list[float]:
    """Of every number, what all ranks (of a group) together make of it, in double precision; all of them call it."""
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor, how, group=group)
    return [float(value) for value in tensor.tolist()]


@dataclass(frozen=True)
class Place:
    """This rank among the others."""

    rank: int
    ranks: int
    device: torch.device
    pinned: bool

    def mean(self, values: list[float]) -> list[float]:
        """Of every number, the mean over ranks."""
        return [total / self.ranks for total in reduced(values, self.device)]

    def largest(self, value: float) -> float:
        return reduced([value], self.device, dist.ReduceOp.MAX)[0]

    def least(self, value: float) -> float:
        return reduced([value], self.device, dist.ReduceOp.MIN)[0]

    def memory_bytes(self) -> float:
        """What this rank could use now: what is free on its GPU, or its share of what is on the host."""
        shared_by = 1 if self.device.type == "cuda" else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        return free_bytes(self.device) / shared_by


def free_bytes(device: torch.device) -> float:
    """What is free on a GPU, or on the host of a CPU."""
    if device.type == "cuda":
        return float(torch.cuda.mem_get_info(device)[0])
    try:
        match = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    pages = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return float(match[1]) * 1024 if match else pages


def probe(
    device: torch.device | None = None, repeats: int = REPEATS, now: Callable[[], float] = time.perf_counter
) -> float:
    """The coefficient of variation of a fixed piece of work of this process, over the faster half of the
    repeats: what even the best runs of a plan are blurred by. Takes some 0.2 s."""
    device = torch.device("cpu") if device is None else device
    matrix = torch.full((WIDTH, WIDTH), 1.0 / WIDTH, device=device)

    def piece(times: int) -> float:
        before = now()
        for _ in range(times):
            torch.mm(matrix, matrix)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return now() - before

    piece(10)
    once = min(piece(10) for _ in range(3)) / 10
    times = max(1, min(10_000, round(PIECE_S / once))) if once > 0 else 1
    return variation([piece(times) for _ in range(repeats)])


def variation(seconds: Sequence[float]) -> float:
    """Standard deviation over mean of the faster half; 0 for fewer than two."""
    best = sorted(seconds)[: max(2, round(len(seconds) * BEST_SHARE))]
    mean = fmean(best) if best else 0.0
    return pstdev(best) / mean if mean > 0 else 0.0
