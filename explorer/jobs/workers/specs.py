"""Kinds of workers that do jobs, and how many a machine takes. Functions are called in the worker: what they import
never loads where jobs start."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from explorer.jobs.requests import READ_BYTES, Work
from explorer.sweeps.execution.workers import CGROUP

ORDERLY_S = 20.0
"""How long a worker that has processes of its own may take to end them."""
HEED_S = 2.0
"""A worker that has not ended a cancelled job after this long is killed, by default."""
IDLE_S = 5.0
"""How long a worker is idle before it prepares what takes long."""
WORKER_BYTES = 4 * 2**30
"""What there has to be for each worker, where there are several by default."""
MOST = 8
"""Workers by default, however large the machine: the page serves a class, not a cluster."""
LEAST_BYTES = 2 * 2**30
"""The least limit that a worker is given, however many there are."""


def nothing() -> None:
    return None


def at_once() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A kind of worker that does jobs.

    verb: what such a process is at, for people.
    kinds: gives what it can do, by name.
    prepare: what is done before its first job, or, where that would not be over at once (is_quick), when it has been
        idle for idle_s: the first job may need none of it.
    orderly: its jobs start processes of their own; it has time to end them, after a cancel and at its end.
    heed_s: seconds that it has to end a cancelled job before it is killed.
    memory_bytes: limit of each of its processes, 0 for as much as there is.
    """

    verb: str
    kinds: Callable[[], Mapping[str, Work]]
    prepare: Callable[[], None] = nothing
    is_quick: Callable[[], bool] = at_once
    idle_s: float = IDLE_S
    orderly: bool = False
    heed_s: float = HEED_S
    memory_bytes: int = 0


def all_kinds() -> Mapping[str, Work]:
    """Every kind of job there is."""
    from explorer.jobs.job_kinds import KINDS

    return KINDS


def read_kinds() -> Mapping[str, Work]:
    """Only what looks at files of other people."""
    from explorer.jobs.read_kind import read_job
    from explorer.jobs.traces_kind import lay_traces_job

    return {"read": read_job, "lay-traces": lay_traces_job}


def warm_page() -> None:
    """Load, or compile, what the page's first answer needs."""
    from solvers.planners.warm import FAMILIES, PAGE

    FAMILIES[PAGE]()


def page_is_compiled() -> bool:
    """Whether `warm_page` would only load."""
    from solvers.kernels.interpreted import is_cached
    from solvers.pipelines.tree.stage_dp_kernel import place_branches

    return is_cached(place_branches)  # the last


SOLVING = WorkerSpec("solving", all_kinds, warm_page, page_is_compiled)
RUNNING = WorkerSpec("running", all_kinds, orderly=True, heed_s=ORDERLY_S)
READING = WorkerSpec("reading", read_kinds, memory_bytes=READ_BYTES)


def memory_bytes(cgroup: Path = CGROUP) -> int:
    """That this process and those it starts may use; 0 if the system does not say."""
    nbytes = 0
    with suppress(AttributeError, OSError, ValueError):
        nbytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        limit = (cgroup / "memory.max").read_text().strip()
        if limit != "max":
            nbytes = min(nbytes, int(limit)) if nbytes else int(limit)
    return nbytes


def default_workers(cores: int, memory: int) -> int:
    """As many as there are cores, and as the memory has room for."""
    return max(1, min(cores, memory // WORKER_BYTES if memory else cores, MOST))


def solving_spec(workers: int, memory: int) -> WorkerSpec:
    """A worker that may take its share of ``memory`` (0: unknown, and no limit)."""
    share = max(LEAST_BYTES, memory // workers) if memory else 0
    return replace(SOLVING, memory_bytes=share)
