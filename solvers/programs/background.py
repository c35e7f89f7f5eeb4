"""A solver in a process of its own, so that it can be stopped at once.

Solvers written in C++ answer an interrupt only between certain steps, up to seconds apart. Here
such a solver runs in a child process, started afresh rather than forked (so also from a daemonic
worker), and is killed when its answer is no longer wanted. Parent and child exchange JSON lines,
so nothing the child says can run code in the parent. Infinity and NaN pass: both ends are Python's
``json``, which writes and reads them as ``Infinity``, ``-Infinity`` and ``NaN``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any

Message = dict[str, Any]
Send = Callable[[Message], None]
Receive = Callable[[], list[Message]]

TASKS = {
    "mip": "solvers.programs.mip:run",
    "cover-bound": "solvers.bounds.cover.bound:run",
    "partition": "solvers.programs.metis:run",
    "latency-positions": "solvers.latency.positions:run",
    "max-load": "solvers.noncontiguous.max_load_program:run",
    "joint-pass": "solvers.joint.exact.cp_program:run",
}
"""What a child can do: task -> module:function, a function ``run(payload, send, receive) -> None``.

send gives the parent a message, from any thread. receive returns the messages that came meanwhile;
it does not wait.
"""

FOLDER = "placement-solver-"
"""How the name of a child's folder for temporary files begins."""


class Background:
    """One task in a child process; its constructor does not wait for the child to start.

    Messages are dicts that JSON can carry; numpy arrays and numbers are sent as lists and numbers.
    Close it when done (it is a context manager): that kills the child and all it has started.
    """

    def __init__(self, task: str, payload: Message) -> None:
        if task not in TASKS:
            raise ValueError(f"there is no background task {task!r}; there are: {', '.join(sorted(TASKS))}")
        self._inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._error: str | None = None
        self._finished = False
        self._reaping = threading.Lock()
        root = str(Path(__file__).resolve().parents[2])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        # What the child leaves behind when it is killed goes with the folder.
        self._folder = tempfile.TemporaryDirectory(prefix=FOLDER, ignore_cleanup_errors=True)
        temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder.name)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "solvers.programs.background"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **temporary, "PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # a group of its own: killed with all it has started
        )
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._write)]
        for thread in self._threads:
            thread.start()
        self.send({"task": task, "payload": payload})

    def poll(self) -> list[Message]:
        """The messages that came since the last call; does not wait."""
        messages = []
        while not self._inbox.empty():
            messages.append(self._inbox.get())
        return messages

    def send(self, message: Message) -> None:
        """Give the child a message; does not wait. Silently dropped if the child has ended."""
        self._outbox.put(_encoded(message))

    @property
    def done(self) -> bool:
        """Whether the child has ended, well or not, and every message of it has been polled."""
        return self._finished and self._inbox.empty()

    @property
    def error(self) -> str | None:
        """Once `done`: what went wrong in the child, in one line, or None. None while it runs."""
        return self._error if self._finished else None

    def close(self) -> None:
        """Kill the child and all it has started, and wait for their end. Harmless when repeated."""
        self._end()
        self._outbox.put(None)
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._folder.cleanup()

    def __enter__(self) -> Background:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        ended = False
        for line in self._process.stdout:
            try:
                told = json.loads(line)
            except ValueError:  # half a line, cut short by a kill
                continue
            if "message" in told:
                self._inbox.put(told["message"])
            else:
                ended, self._error = True, told["error"]
        code = self._end()
        if not ended:
            self._error = f"the solver process ended unexpectedly (exit code {code})"
        self._finished = True

    def _end(self) -> int:
        """Kill the child's group, wait for the child, return its exit code."""
        with self._reaping:  # once reaped, its number may belong to somebody else
            if self._process.returncode is None:
                if hasattr(os, "killpg"):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(self._process.pid, signal.SIGKILL)
                else:
                    self._process.kill()
            return self._process.wait()

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        while (line := self._outbox.get()) is not None:
            try:
                pipe.write(line)
                pipe.flush()
            except OSError:  # the child has ended
                return


def _encoded(message: Message) -> bytes:
    return json.dumps(message, default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    """A numpy array or number as JSON has it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a message cannot hold a {type(value).__name__}")


def main() -> None:
    """The child: run the task named in the first line, pass messages on, end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the parent
    # The pipes move to descriptors of their own: what a solver prints, or reads, goes nowhere.
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY)):
        null = os.open(os.devnull, mode)
        os.dup2(null, descriptor)
        os.close(null)
    first = json.loads(source.readline() or "null")
    if first is None:
        return
    lock = threading.Lock()
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def tell(line: Message) -> None:
        encoded = _encoded(line)
        with lock:
            try:
                target.write(encoded)
                target.flush()
            except OSError:
                _end_all()

    def receive() -> list[Message]:
        messages = []
        while not inbox.empty():
            messages.append(inbox.get())
        return messages

    threading.Thread(target=_listen, args=(source, inbox), daemon=True).start()
    error = None
    try:
        module, function = TASKS[first["task"]].split(":")
        run = getattr(importlib.import_module(module), function)
        run(first["payload"], lambda message: tell({"message": message}), receive)
    except Exception as problem:
        error = " ".join(f"{type(problem).__name__}: {problem}".split())
    tell({"error": error})
    os._exit(0)  # without waiting for a solver to tidy up


def _listen(source: IO[bytes], inbox: queue.SimpleQueue[Message]) -> None:
    for line in source:
        try:
            inbox.put(json.loads(line))
        except ValueError:
            break
    _end_all()  # the parent is gone


def _end_all() -> None:
    """End this process at once, and every process of its group if the group is its own; no temporary
    files stay behind."""
    folder = tempfile.gettempdir()
    if Path(folder).name.startswith(FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
