"""A server's processes, as Linux lists them: their memory and threads over time, and an end for some of them."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

WORKER = b"multiprocessing.spawn"
"""In the command line of a process that does jobs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """MiB of the server itself and of its workers together, threads of the server."""

    at_s: float
    server_mib: float
    workers_mib: float
    threads: int


@dataclass
class Watch:
    """Of the process ``pid`` and its children."""

    pid: int
    samples: list[Sample] = field(default_factory=list)
    killed: int = 0

    def workers(self) -> list[int]:
        """Those that are busy as well as those that wait."""
        children = []
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                children += [int(child) for child in (task / "children").read_text().split()]
            except OSError:
                continue  # a thread that ended
        return [child for child in children if WORKER in _read(child, "cmdline")]

    async def look(self, until: float, every_s: float = 1.0) -> None:
        while time.monotonic() < until:
            self.samples.append(self._now())
            await asyncio.sleep(every_s)

    async def kill(self, until: float, every_s: float, seed: int = 0) -> None:
        """One worker after another, whatever it is at."""
        draw = random.Random(seed)
        while True:
            await asyncio.sleep(draw.expovariate(1 / every_s))
            if time.monotonic() >= until:
                return
            if workers := self.workers():
                os.kill(draw.choice(workers), signal.SIGKILL)
                self.killed += 1

    def _now(self) -> Sample:
        mib, threads = _status(self.pid)
        return Sample(time.monotonic(), mib, sum(_status(worker)[0] for worker in self.workers()), threads)

    def slope(self) -> float:
        """MiB a minute of the server, over the second half: the first one warms up."""
        late = self.samples[len(self.samples) // 2 :]
        fit = statistics.linear_regression([each.at_s for each in late], [each.server_mib for each in late])
        return 60.0 * fit.slope


def percentile(values: Sequence[float], share: float) -> float:
    """The least of the values that so large a share of them do not exceed; nan of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def cpu_s(pid: int) -> float:
    """Seconds of work of a process so far, 0 of one that is gone."""
    after_name = _read(pid, "stat").rpartition(b")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK") if after_name else 0.0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _status(pid: int) -> tuple[float, int]:
    """MiB and threads, zeros of a process that is gone."""
    fields = dict(line.split(b":", 1) for line in _read(pid, "status").splitlines() if b":" in line)
    if b"VmRSS" not in fields:
        return 0.0, 0
    return int(fields[b"VmRSS"].split()[0]) / 1024, int(fields[b"Threads"])
