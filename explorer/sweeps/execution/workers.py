"""Who answers questions: what workers are given, and what they return."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from explorer.sweeps.execution.questions import Answer, Question
from solvers.plan.plan import Plan

WORKER_BYTES = 2**30
"""Memory for each worker: 0.25 GB with its kernels and a small model, more while it searches a large one."""
MEMORY = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
LIMITS = (CGROUP / "memory.max", CGROUP / "memory" / "memory.limit_in_bytes")
"""What a container may use, in bytes or a word, by either version of control groups."""


@dataclass(frozen=True, slots=True)
class Returned:
    """What came back of the question at ``position``. answer: None if it was given up, because everybody was asked to
    stop."""

    position: int
    answer: Answer | None


class Workers(Protocol):
    """Answer questions, several at a time."""

    def free(self) -> bool:
        """Whether another question could begin now."""
        ...

    def give(self, position: int, question: Question, start: Plan | None) -> None:
        """Begin with a question. Only where `free`."""
        ...

    def wait(self, seconds: float) -> Sequence[Returned]:
        """What came back, after at most so long. Raises RunError where none can work any more."""
        ...

    def stop(self) -> None:
        """Searches that run end now, with what they have."""
        ...

    def close(self) -> None:
        """End all of it; nothing of it runs afterwards."""
        ...


def cores(cgroup: Path = CGROUP) -> int:
    """That this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # cgroup v2: "max 100000", or microseconds of each period
        quota, period = (cgroup / "cpu.max").read_text().split()
        if quota != "max":
            count = min(count, max(1, int(quota) // int(period)))
    return count


def room() -> int:
    """Workers that this process may have here: one a core that it may use, and as many as fit into free memory."""
    free = _free_bytes()
    return max(1, cores() if free is None else min(cores(), int(free // WORKER_BYTES)))


def _free_bytes() -> float | None:
    """None where that is not stated."""
    limits: list[float] = []
    with suppress(OSError, ValueError, KeyError):
        fields = dict(line.split(":", 1) for line in MEMORY.read_text().splitlines())
        limits.append(1024.0 * int(fields["MemAvailable"].split()[0]))
    for limit in LIMITS:
        with suppress(OSError, ValueError):
            limits.append(float(int(limit.read_text())))
    return min(limits, default=None)
