"""The child side of a job: a process that keeps solvers, kernels and traced models warm."""

from __future__ import annotations

import gc
import os
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from typing import Any

from explorer.jobs.limits import READ_BYTES
from explorer.jobs.requests import Emit, Work


def main(connection: Connection, orderly_s: float = 0.0, reads: bool = False) -> None:
    """Serve jobs from ``connection`` until it closes. orderly_s: how long what is running then may take to
    stop; such a worker runs plans rather than solving, and warms no solvers. reads: whether it only reads files of
    other people, in limited memory.

    In: ("start", id, kind, request), ("cancel", id) and ("close",). Out: (id, event) for every event, and
    (id, None) when the job is over. One job runs at a time, in the order of arrival; a job that is
    cancelled before it starts ends at once.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    waiting: queue.Queue[tuple[str, str, Any] | None] = queue.Queue()
    cancelled: set[str] = set()
    closed = threading.Event()
    threading.Thread(target=_listen, args=(connection, waiting, cancelled, closed, orderly_s), daemon=True).start()
    if reads:
        _limit_memory()
        from explorer.jobs.read_kind import read_job

        kinds: Mapping[str, Work] = {"read": read_job}
    else:
        from explorer.jobs.job_kinds import KINDS

        kinds = KINDS
    from explorer.view import events
    from solvers.kernels.compiling import Compiling
    from solvers.planners.warm import FAMILIES, PAGE

    current = ""

    def tell(kernel: str, seconds: float) -> None:
        """To the job that is running, or else to the one that waits for this to end."""
        first = next(iter(tuple(waiting.queue)), None)
        to = current or (first[0] if first is not None else "")
        if to:
            connection.send((to, events.compiling(kernel, seconds)))

    with Compiling(tell=tell), suppress(BrokenPipeError, OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C, or a notebook's interrupt, is the parent's to act on
        if not orderly_s and not reads:
            FAMILIES[PAGE]()
        gc.freeze()  # what lives as long as the process need not be looked through at every collection
        while (job := waiting.get()) is not None:
            current, kind, request = job
            _serve(connection, kinds[kind], current, request, cancelled, closed, bool(orderly_s))
            cancelled.discard(current)
            current = ""


def _limit_memory() -> None:
    """What a file makes of a few bytes must not take the machine down. Not every system can be asked to see to that."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (READ_BYTES, READ_BYTES))


def _serve(
    connection: Connection,
    work: Work,
    identifier: str,
    request: Any,
    cancelled: set[str],
    closed: threading.Event,
    orderly: bool,
) -> None:
    """One job, unless it was cancelled before. Raises OSError when nobody listens any more."""

    def emit(event: dict[str, Any]) -> None:
        with suppress(OSError) if orderly else nullcontext():  # what is to be ended goes on until it is
            connection.send((identifier, event))

    if identifier not in cancelled:
        run(work, request, emit, lambda: identifier in cancelled or closed.is_set())
    connection.send((identifier, None))


def run(work: Work, request: Any, emit: Emit, should_stop: Callable[[], bool]) -> None:
    """Run one job; whatever goes wrong becomes a ``failed`` event with one line for people."""
    from explorer.question.tracer import Stopped
    from explorer.view import events
    from solvers.errors import PlacementError, one_line

    try:
        work(request, emit, should_stop)
    except Stopped:
        return  # it ends without an answer, as one that never began
    except PlacementError as error:
        emit(events.failed(str(error)))
    except MemoryError:
        emit(events.failed("the model is too large for this machine's memory"))
    except Exception as error:
        traceback.print_exc()
        said = f"internal error ({type(error).__name__}: {error}); the log has the details"
        emit(events.failed(one_line(said)))


def _listen(
    connection: Connection,
    waiting: queue.Queue[tuple[str, str, Any] | None],
    cancelled: set[str],
    closed: threading.Event,
    orderly_s: float,
) -> None:
    try:
        while True:
            message = connection.recv()
            if message[0] == "close":
                raise EOFError
            if message[0] == "start":
                waiting.put(message[1:])
            else:
                cancelled.add(message[1])
    except (EOFError, OSError):
        closed.set()
        waiting.put(None)
        if orderly_s:
            time.sleep(orderly_s)
        os._exit(0)  # the parent is gone: nobody waits for what is still running
