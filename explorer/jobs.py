"""Trace and solve as one kind of job in a warm worker process: start, progress, cancel, result.

The process that starts jobs never imports torch. A worker that dies, or does not heed a cancel, is
replaced; its job ends with a ``failed`` event.
"""

from __future__ import annotations

import itertools
import multiprocessing
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from explorer import worker
from explorer.view import events

Event = dict[str, Any]
OnEvent = Callable[[Event], None]

HEED_S = 2.0
"""A worker that has not ended a cancelled job after this long is killed."""


@dataclass(slots=True)
class _Job:
    on_event: OnEvent
    over: bool = False
    """True once a ``result`` or ``failed`` event was passed on."""


@dataclass
class Jobs:
    """One warm worker process and the jobs it was given.

    on_event is called from a thread of this object's. Every job ends with exactly one ``result`` or
    ``failed`` event.
    """

    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _process: BaseProcess | None = None
    _connection: Connection | None = None
    _closed: bool = False

    def start(self, kind: str, request: Any, on_event: OnEvent) -> str:
        """Queue a job; returns its id. kind is a name of `explorer.job_kinds.KINDS`."""
        with self._lock:
            identifier = f"job{next(self._numbers)}"
            self._jobs[identifier] = _Job(on_event)
            self._send(("start", identifier, kind, request))
        return identifier

    def cancel(self, identifier: str) -> None:
        """Ask a job to stop; it still reports its best plan. Unknown ids are ignored."""
        with self._lock:
            if identifier not in self._jobs or self._connection is None:
                return
            self._send(("cancel", identifier))
            killer = threading.Timer(HEED_S, self._kill_if_running, (identifier, self._process))
            killer.daemon = True
            killer.start()

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
        if connection is not None:
            connection.close()
        if process is not None:
            process.terminate()
            process.join(5)
        self._fail_all("the server is shutting down")

    def _send(self, message: tuple[Any, ...]) -> None:
        self._ensure_worker()
        assert self._connection is not None
        try:
            self._connection.send(message)
        except (BrokenPipeError, OSError):
            self._lost(self._connection)
            self._ensure_worker()
            self._connection.send(message)

    def _ensure_worker(self) -> None:
        if self._closed:
            raise RuntimeError("these jobs were closed")
        if self._process is not None and self._process.is_alive():
            return
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(target=worker.main, args=(theirs,), name="placement-worker", daemon=True)
        self._process.start()
        theirs.close()
        self._connection = ours
        threading.Thread(target=self._read, args=(ours,), name="placement-events", daemon=True).start()

    def _read(self, connection: Connection) -> None:
        try:
            while True:
                identifier, event = connection.recv()
                self._deliver(identifier, event)
        except (EOFError, OSError):
            self._lost(connection)

    def _deliver(self, identifier: str, event: Event | None) -> None:
        with self._lock:
            job = self._jobs.get(identifier)
            if job is None:
                return
            if event is None:
                del self._jobs[identifier]
                event = None if job.over else events.failed("the job was cancelled before it began")
            elif event["kind"] in ("result", "failed"):
                job.over = True
        if event is not None:
            job.on_event(event)

    def _lost(self, connection: Connection) -> None:
        """The worker is gone: its jobs fail, the next one gets a new worker."""
        with self._lock:
            if connection is not self._connection:
                return
            self._connection = None
            process, self._process = self._process, None
        if process is not None:
            process.join(5)
        code = process.exitcode if process is not None else None
        self._fail_all(f"the solving process ended unexpectedly (exit code {code}); a new one takes the next request")

    def _fail_all(self, message: str) -> None:
        with self._lock:
            jobs, self._jobs = list(self._jobs.values()), {}
        for job in jobs:
            if not job.over:
                job.over = True
                job.on_event(events.failed(message))

    def _kill_if_running(self, identifier: str, process: BaseProcess | None) -> None:
        with self._lock:
            running = identifier in self._jobs and process is self._process
        if running and process is not None:
            process.kill()
