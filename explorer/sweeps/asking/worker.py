"""The child side of the pool: a process that keeps solvers, kernels and graphs warm, and answers one question at a
time."""

from __future__ import annotations

import os
import queue
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Theirs to act on who asked: these go to all processes of a terminal or a batch system alike."""


def main(connection: Connection) -> None:
    """Serve questions until the connection closes.

    In: ("ask", position, key, graph or "", question, start) and ("stop",). Out: ("compiling", kernel, seconds) and
    ("answer", position, text). Keys are of graphs, whose text comes along until it was sent once.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for number in SIGNALS:  # a handler, for processes that planners start get the system's own again
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    asked: queue.Queue[tuple[int, str, str, str, str]] = queue.Queue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(connection, asked, stop), daemon=True).start()

    from explorer.sweeps.asking.solving import Desk
    from solvers.kernels.compiling import Compiling

    desk = Desk()
    with (
        suppress(BrokenPipeError, OSError),
        Compiling(tell=lambda kernel, seconds: connection.send(("compiling", kernel, seconds))),
    ):
        while True:
            position, key, graph, question, start = asked.get()
            if graph:
                desk.take(key, graph)
            connection.send(("answer", position, desk.answer(key, question, start, stop.is_set)))


def _listen(connection: Connection, asked: queue.Queue[tuple[int, str, str, str, str]], stop: threading.Event) -> None:
    try:
        while True:
            message = connection.recv()
            if message[0] == "stop":
                stop.set()
            else:
                asked.put(message[1:])
    except (EOFError, OSError):
        os._exit(0)  # who asked is gone: nobody waits for what is still running
