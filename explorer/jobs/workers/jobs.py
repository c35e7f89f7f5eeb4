"""Trace, solve and compare as kinds of job in a warm worker process: start, progress, cancel, result.

The process that starts jobs never imports torch. A worker that dies, or does not heed a cancel, is
replaced; the job it was at ends with a ``failed`` event, those that had not begun go to the next one.
"""

from __future__ import annotations

import itertools
import multiprocessing
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from explorer.jobs.workers import worker
from explorer.jobs.workers.alarms import Alarms
from explorer.view import events

Event = dict[str, Any]
OnEvent = Callable[[Event], None]

MOST_TRIES = 2
"""How often a job that never began is given to a worker."""
HEED_S = 2.0
"""A worker that has not ended a cancelled job after this long is killed."""
ORDERLY_S = 20.0
"""How long a worker that has processes of its own may take to end them."""

BRIEF = frozenset({"prepare", "show-run", "export", "review", "lean", "differ", "hash", "why-here"})
"""Kinds of job that end by themselves soon: nothing is killed for them."""


@dataclass(slots=True)
class _Job:
    kind: str
    request: Any
    on_event: OnEvent
    sent_to: Connection | None = None
    tries: int = 0
    heard: bool = False
    """True once the worker told something of it: it has begun."""
    compiling: bool = False
    """True while the worker compiles kernels for it, which nothing can interrupt."""
    cancelled: bool = False
    over: bool = False
    """True once its last event was passed on."""


@dataclass
class Jobs:
    """One warm worker process and the jobs it was given.

    on_event is called from a thread of this object's. Every job ends with exactly one event of
    `events.LAST`. orderly: for jobs that start processes of their own: the worker warms no solvers, and is
    given time to end those processes, after a cancel as well as at the end. reads: for jobs that only read files
    of other people, in limited memory.
    """

    orderly: bool = False
    reads: bool = False
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _alarms: Alarms = field(default_factory=Alarms)
    _process: BaseProcess | None = None
    _connection: Connection | None = None
    _closed: bool = False

    def start(self, kind: str, request: Any, on_event: OnEvent) -> str:
        """Queue a job; returns its id. kind is a name of `explorer.jobs.job_kinds.KINDS`."""
        with self._lock:
            identifier = f"job{next(self._numbers)}"
            self._jobs[identifier] = _Job(kind, request, on_event)
            self._dispatch(identifier)
        return identifier

    def cancel(self, identifier: str) -> None:
        """Ask a job to stop; it still reports its best plan. Unknown ids are ignored."""
        with self._lock:
            job = self._jobs.get(identifier)
            if job is None or job.sent_to is None:
                return
            job.cancelled = True
            with suppress(OSError):  # a worker that is gone: its reader sees to the job
                job.sent_to.send(("cancel", identifier))
            if job.kind in BRIEF:
                return
            self._kill_later(identifier, self._process)

    def cancel_after(self, seconds: float, identifier: str) -> None:
        """The same, later, if the job is still there."""
        self._alarms.after(seconds, lambda: self.cancel(identifier))

    def warm(self) -> None:
        """Start the worker now, so that the first job does not wait for it."""
        with self._lock:
            self._ensure_worker()

    def close(self) -> None:
        """End the worker; running jobs report ``failed``."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
            connection, self._connection = self._connection, None
        if process is not None and connection is not None and self.orderly:
            with suppress(OSError):
                connection.send(("close",))  # a read on it goes on elsewhere: closing alone would not be noticed
            process.join(ORDERLY_S)
        if connection is not None:
            connection.close()
        if process is not None:
            process.terminate()
            process.join(5)
        self._fail_all("the server is shutting down")

    @property
    def _heed_s(self) -> float:
        return ORDERLY_S if self.orderly else HEED_S

    def _dispatch(self, identifier: str) -> None:
        self._ensure_worker()
        job = self._jobs[identifier]
        job.sent_to, job.tries = self._connection, job.tries + 1
        assert self._connection is not None
        with suppress(OSError):  # a worker that is gone: its reader sees to the job
            self._connection.send(("start", identifier, job.kind, job.request))

    def _ensure_worker(self) -> None:
        if self._closed:
            raise RuntimeError("these jobs were closed")
        if self._process is not None and self._process.is_alive():
            return
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        arguments = (theirs, ORDERLY_S if self.orderly else 0.0, self.reads)
        self._process = context.Process(target=worker.main, args=arguments, name="placement-worker", daemon=True)
        self._process.start()
        theirs.close()
        self._connection = ours
        threading.Thread(target=self._read, args=(ours,), name="placement-events", daemon=True).start()

    def _read(self, connection: Connection) -> None:
        while True:
            try:
                identifier, event = connection.recv()
            except (EOFError, OSError, TypeError):  # TypeError: closed by another thread while it is being read
                break
            self._deliver(identifier, event)
        self._lost(connection)

    def _deliver(self, identifier: str, event: Event | None) -> None:
        with self._lock:
            job = self._jobs.get(identifier)
            if job is None:
                return
            if event is not None and event["kind"] == "compiling":
                job.compiling = event["kernel"] != ""  # maybe for the worker itself: the job need not have begun
            else:
                job.heard = True
            if event is None:
                del self._jobs[identifier]
                event = None if job.over else events.failed("the job was cancelled before it began")
            elif event["kind"] in events.LAST:
                job.over = True
        if event is not None:
            job.on_event(event)

    def _lost(self, connection: Connection) -> None:
        """A worker is gone: what it had begun fails, a new worker takes the rest."""
        with self._lock:
            process = None
            if connection is self._connection:
                process, self._process, self._connection = self._process, None, None
        if process is not None:
            process.join(5)
        code = process.exitcode if process is not None else None
        failed = []
        with self._lock:
            for identifier, job in list(self._jobs.items()):
                if job.sent_to is not connection:
                    continue
                if self._closed or job.heard or job.cancelled or job.tries >= MOST_TRIES:
                    failed.append(self._jobs.pop(identifier))
                else:
                    self._dispatch(identifier)
        which = "running" if self.orderly else "reading" if self.reads else "solving"
        for job in failed:
            self._fail(job, f"the {which} process ended unexpectedly (exit code {code})")

    def _fail_all(self, message: str) -> None:
        with self._lock:
            jobs, self._jobs = list(self._jobs.values()), {}
        for job in jobs:
            self._fail(job, message)

    @staticmethod
    def _fail(job: _Job, message: str) -> None:
        if not job.over:
            job.over = True
            job.on_event(events.failed(message))

    def _kill_if_running(self, identifier: str, process: BaseProcess | None) -> None:
        """A job still waiting is left to be skipped: another one is running. One that compiles heeds a
        cancel when that is done; the next would have to compile the same."""
        with self._lock:
            job = self._jobs.get(identifier)
            running = job is not None and job.heard and process is self._process
            if running and job is not None and job.compiling:
                self._kill_later(identifier, process)
                return
        if running and process is not None:
            process.kill()

    def _kill_later(self, identifier: str, process: BaseProcess | None) -> None:
        self._alarms.after(self._heed_s, lambda: self._kill_if_running(identifier, process))
