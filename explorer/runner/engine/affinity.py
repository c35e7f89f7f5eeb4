"""A rank keeps to its own cores, and ends when what started it ends. Linux only; elsewhere nothing happens."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""prctl's option: the signal that this process gets when its parent ends (linux/prctl.h)."""


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


def die_with_parent() -> None:
    """SIGKILL for this process when the one that started it is gone, however that ended."""
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended in between
        os._exit(1)
