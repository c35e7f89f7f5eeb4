"""A rank among the others that measure at the same time, and what it could still use of memory."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist


def reduced(
    values: Sequence[float], device: torch.device, how: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM
) -> list[float]:
    """Of every number, what all ranks together make of it, in double precision; every rank calls it."""
    tensor = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(tensor, how)
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
        found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    pages = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return float(found[1]) * 1024 if found else pages
