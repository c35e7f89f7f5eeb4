"""The side of the child: its messages, its limits, and its end with its parent's."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn

from solvers.programs.processes.frames import decode, encode, read_frame, write_frame
from solvers.programs.processes.spec import TEMPORARY, ProcessSpec


class Channel:
    """Messages from and to the parent. When that is gone, so is this process, whatever it is at.

    In: ("start", task, payload), ("cancel", task) and whatever else the kind of process understands.
    """

    def __init__(self, source: IO[bytes], target: IO[bytes], spec: ProcessSpec) -> None:
        self.closed = threading.Event()
        self.cancelled: set[object] = set()
        self._source, self._target, self._spec = source, target, spec
        self._inbox: queue.Queue[Any] = queue.Queue()
        self._sending = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def send(self, *message: object) -> None:
        """From any thread. Dropped where nobody listens: this process is about to end."""
        data = encode(message, self._spec.trusted)
        with self._sending, contextlib.suppress(OSError):
            write_frame(self._target, data)

    def receive(self) -> list[Any]:
        """The messages that came meanwhile; does not wait."""
        messages = []
        while not self._inbox.empty() and (message := self._inbox.get()) is not None:
            messages.append(message)
        return messages

    def next(self, seconds: float | None = None) -> Any:
        """The next message, None for no more. Raises queue.Empty after ``seconds``."""
        return self._inbox.get(timeout=seconds)

    def should_stop(self, task: object) -> Callable[[], bool]:
        """Whether that task was cancelled, or the parent is gone."""
        return lambda: task in self.cancelled or self.closed.is_set()

    def serve(
        self, work: Callable[[Any, Any], bool], prepare: Callable[[], None] | None = None, idle_s: float = 0.0
    ) -> None:
        """Do one task after the other until the parent has no more.

        work: given a task's name and payload; returns whether this process is fit for another one.
        prepare: called once this process was idle for ``idle_s``.
        Out: ("ready",) first, and ("over", task) after each; one that is cancelled before it begins is over at once.
        """
        self.send("ready")
        while True:
            try:
                message = self.next(idle_s if prepare else None)
            except queue.Empty:
                assert prepare is not None
                prepare()
                prepare = None
                continue
            if message is None:
                return
            _, task, payload = message
            fit = task in self.cancelled or work(task, payload)
            self.send("over", task)
            self.cancelled.discard(task)
            if not fit:
                return

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while (data := read_frame(self._source)) is not None:
                message: Any = decode(data, self._spec.trusted)
                if message[0] == "cancel":
                    self.cancelled.add(message[1])
                else:
                    self._inbox.put(message)
        self.closed.set()
        self._inbox.put(None)
        time.sleep(self._spec.end_s)
        end_all()


def main() -> NoReturn:
    """Run what the parent sent, with pipes of its own: what is printed, or read, here is no message."""
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    first = read_frame(source)
    if first is None:
        os._exit(0)
    sys.path[:], packed = pickle.loads(first)
    code = 1
    try:
        spec: ProcessSpec = pickle.loads(packed)
        _ignore(spec.ignored)
        _limit_memory(spec.memory_bytes)
        spec.main(Channel(source, target, spec), *spec.arguments)
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)  # without waiting for threads, or for a solver to tidy up


def end_all() -> NoReturn:
    """End this process at once, and every process of its group if the group is its own; no temporary files stay."""
    folder = tempfile.gettempdir()
    if Path(folder).name.startswith(TEMPORARY):
        shutil.rmtree(folder, ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _ignore(signals: tuple[signal.Signals, ...]) -> None:
    for number in signals:  # a handler, since processes that are started here get the system's own again
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


def _limit_memory(nbytes: int) -> None:
    """What a question, or a file, makes of a few bytes must not take the machine down. Not every system can be asked to
    see to that. The limit is for this process, and for each that it starts."""
    if not nbytes:
        return
    with contextlib.suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (nbytes if most < 0 else min(nbytes, most), most))
