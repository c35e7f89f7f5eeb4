"""The worker that solves for all widgets of a program: one warm process, started with the first question."""

from __future__ import annotations

import atexit
import queue
import threading
import traceback
from collections.abc import Callable

from explorer.jobs.workers.jobs import Jobs
from explorer.jobs.workers.specs import memory_bytes, solving_spec

_lock = threading.Lock()
_jobs: list[Jobs] = []
_waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
_clerk: list[threading.Thread] = []


def jobs() -> Jobs:
    """The worker of this program; it ends with the program. Questions wait for one another, in order."""
    with _lock:
        if not _jobs:
            _jobs.append(Jobs(solving_spec(1, memory_bytes())))
            atexit.register(_jobs[0].close)
        return _jobs[0]


def post(act: Callable[[], None]) -> None:
    """Do something later, in a thread of its own, in the order in which it was posted."""
    with _lock:
        if not _clerk:
            _clerk.append(threading.Thread(target=_serve, name="placement-questions", daemon=True))
            _clerk[0].start()
    _waiting.put(act)


def _serve() -> None:
    while True:
        try:
            _waiting.get()()
        except Exception:  # one question that cannot be asked is no reason not to ask the next
            traceback.print_exc()
