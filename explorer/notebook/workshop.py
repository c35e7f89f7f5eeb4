"""The worker that solves for all widgets of a program: one warm process, started with the first question."""

from __future__ import annotations

import atexit
import threading

from explorer.jobs.jobs import Jobs

_lock = threading.Lock()
_jobs: list[Jobs] = []


def jobs() -> Jobs:
    """The worker of this program; it ends with the program. Questions wait for one another, in order."""
    with _lock:
        if not _jobs:
            _jobs.append(Jobs())
            atexit.register(_jobs[0].close)
        return _jobs[0]
