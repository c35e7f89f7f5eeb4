"""A rank keeps to its own cores. Linux only; elsewhere nothing happens."""

from __future__ import annotations

import os


def pin(local_rank: int, threads: int) -> bool:
    """Keep this process to ``threads`` cores of its own. False where there are too few, or no such call."""
    if not hasattr(os, "sched_getaffinity"):
        return False
    cores = sorted(os.sched_getaffinity(0))
    mine = cores[local_rank * threads : (local_rank + 1) * threads]
    if len(mine) < threads:
        return False
    os.sched_setaffinity(0, mine)
    return True
