"""How many workers a machine takes, and what each may: by cores and memory, of a container where this is one."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from explorer.jobs.workers.specs import SOLVING, WorkerSpec
from explorer.sweeps.asking.workers import CGROUP

WORKER_BYTES = 4 * 2**30
"""What there has to be for each worker, where there are several by default."""
MOST = 8
"""Workers by default, however large the machine: the page serves a class, not a cluster."""
LEAST_BYTES = 2 * 2**30
"""The least limit that a worker is given, however many there are."""


def memory_bytes(cgroup: Path = CGROUP) -> int:
    """That this process and those it starts may use; 0 if the system does not say."""
    found = 0
    with suppress(AttributeError, OSError, ValueError):
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        limit = (cgroup / "memory.max").read_text().strip()
        if limit != "max":
            found = min(found, int(limit)) if found else int(limit)
    return found


def default_workers(cores: int, memory: int) -> int:
    """As many as there are cores, and as the memory has room for."""
    return max(1, min(cores, memory // WORKER_BYTES if memory else cores, MOST))


def solving_spec(workers: int, memory: int) -> WorkerSpec:
    """A worker that may take its share of ``memory`` (0: unknown, and no limit)."""
    share = max(LEAST_BYTES, memory // workers) if memory else 0
    return replace(SOLVING, memory_bytes=share)
