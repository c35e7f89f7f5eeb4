"""The child side of a job: a process that keeps solvers, kernels and traced models warm."""

from __future__ import annotations

import gc
import os
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from typing import Any

from explorer.jobs.requests import Emit, Work
from explorer.jobs.workers.kits import ORDERLY_S, Kit

Asked = tuple[str, str, Any, dict[str, Any]]
"""id, kind, request, and the packed plans that it is about, by name."""


def main(connection: Connection, kit: Kit) -> None:
    """Serve jobs from ``connection`` until it closes, one at a time.

    In: ("start", id, kind, request, plans), ("cancel", id) and ("close",). Out: ("ready",) once it can begin;
    ("event", id, event) for every event, with "" while it has no job; ("held", name, packed plan) before the first
    event that names it; ("over", id) when the job is over. A job that is cancelled before it starts ends at once.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    asked: queue.Queue[Asked | None] = queue.Queue()
    cancelled: set[str] = set()
    closed = threading.Event()
    patience_s = ORDERLY_S if kit.orderly else 0.0
    threading.Thread(target=_listen, args=(connection, asked, cancelled, closed, patience_s), daemon=True).start()
    _limit_memory(kit.memory_bytes)
    kinds = kit.kinds()
    from explorer.jobs import held_plans
    from explorer.view import events
    from solvers.kernels.compiling import Compiling

    current = ""
    one_at_a_time = threading.Lock()

    def say(*told: object) -> None:
        with one_at_a_time:
            connection.send(told)

    def tell(kernel: str, seconds: float) -> None:
        say("event", current, events.compiling(kernel, seconds))

    def emit(event: dict[str, Any]) -> None:
        with suppress(OSError) if kit.orderly else nullcontext():  # what is to be ended goes on until it is
            for name, plan in held_plans.newly_held():
                say("held", name, plan)
            say("event", current, event)

    with Compiling(tell=tell), suppress(BrokenPipeError, OSError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C, or a notebook's interrupt, is the parent's to act on
        prepared = kit.is_quick()
        if prepared:
            kit.prepare()
        gc.freeze()  # what lives as long as the process need not be looked through at every collection
        say("ready")
        while True:
            try:
                job = asked.get(timeout=None if prepared else kit.idle_s)
            except queue.Empty:
                kit.prepare()
                prepared = True
                continue
            if job is None:
                return
            current, kind, request, plans = job
            enough = True
            if current not in cancelled:
                for name, plan in plans.items():
                    held_plans.take(name, plan)
                stops = _asked_to_stop(current, cancelled, closed)
                enough = run(kinds[kind], request, emit, stops, kit.memory_bytes)
            say("over", current)
            cancelled.discard(current)
            current = ""
            if not enough:
                return  # what it keeps is too much as well: another begins anew


def _asked_to_stop(identifier: str, cancelled: set[str], closed: threading.Event) -> Callable[[], bool]:
    return lambda: identifier in cancelled or closed.is_set()


def _limit_memory(nbytes: int) -> None:
    """What a question, or a file, makes of a few bytes must not take the machine down. Not every system can be asked to
    see to that. The limit is for this process, and for each that it starts."""
    if not nbytes:
        return
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (nbytes if most < 0 else min(nbytes, most), most))


def run(work: Work, request: Any, emit: Emit, should_stop: Callable[[], bool], memory_bytes: int = 0) -> bool:
    """Run one job; whatever goes wrong becomes a ``failed`` event with one line for people. Returns False if it ran out
    of memory. memory_bytes: what it may take, 0 for as much as there is."""
    from explorer.question.tracer import Stopped
    from explorer.view import events
    from explorer.words import text
    from solvers.errors import PlacementError, one_line

    try:
        work(request, emit, should_stop)
    except Stopped:
        return True  # it ends without an answer, as one that never began
    except PlacementError as error:
        emit(events.failed(str(error)))
    except MemoryError:
        has = f"the {text.nbytes(memory_bytes)} that a worker may take" if memory_bytes else "this machine's memory"
        emit(events.failed(f"this needs more than {has}: fewer micro-batches, devices or operators need less"))
        return False
    except Exception as error:
        traceback.print_exc()
        said = f"internal error ({type(error).__name__}: {error}); the log has the details"
        emit(events.failed(one_line(said)))
    return True


def _listen(
    connection: Connection,
    asked: queue.Queue[Asked | None],
    cancelled: set[str],
    closed: threading.Event,
    patience_s: float,
) -> None:
    try:
        while True:
            message = connection.recv()
            if message[0] == "close":
                raise EOFError
            if message[0] == "start":
                asked.put(message[1:])
            else:
                cancelled.add(message[1])
    except (EOFError, OSError):
        closed.set()
        asked.put(None)
        if patience_s:
            time.sleep(patience_s)
        os._exit(0)  # the parent is gone: nobody waits for what is still running
