"""Print a table with the machine, the versions and the date it was measured on."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version


def machine(*packages: str) -> str:
    """One line: processor, cores, Python and package versions, date."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as info:
            name = next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    today = datetime.date.today().isoformat()
    return f"{name}, {os.cpu_count()} cores; Python {platform.python_version()}, {versions}; {today}"


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[object]], *packages: str) -> None:
    """A Markdown table on standard output."""
    print(f"\n\n### {title}\n\n{machine(*packages)}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


def cpu_seconds(work: Callable[[], object], runs: int = 3) -> float:
    """Median CPU time of ``work``, after one run that warms up."""
    work()
    taken = []
    for _ in range(runs):
        before = time.process_time()
        work()
        taken.append(time.process_time() - before)
    return statistics.median(taken)
