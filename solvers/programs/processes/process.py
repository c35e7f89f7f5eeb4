"""A child process as its parent sees it: messages both ways, and its end."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from solvers.programs.processes.frames import decode, encode, read_frame, write_frame
from solvers.programs.processes.spec import TEMPORARY, ProcessSpec

ROOT = str(Path(__file__).resolve().parents[3])
START = f"import sys; sys.path.insert(0, {ROOT!r}); from solvers.programs.processes.entry import main; main()"

log = logging.getLogger(__name__)


class ChildProcess:
    """A child, started afresh rather than forked (so also from a daemonic process); the constructor does not wait for
    it. Raises OSError where none can be started.

    on_message: called with every message, by a thread of this object; without it, messages wait in ``inbox``.
    on_end: called with this object by the same thread, when the child has ended and `exit_code` is known.

    Each pipe is closed by the one thread that uses it, never by another: its descriptor's number may be another
    child's by the time that the thread goes on with it.
    """

    def __init__(
        self,
        spec: ProcessSpec,
        on_message: Callable[[Any], object] | None = None,
        on_end: Callable[[ChildProcess], object] = lambda _: None,
    ) -> None:
        self.spec = spec
        self.inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._on_message, self._on_end = on_message or self.inbox.put, on_end
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reaping = threading.Lock()
        self._ended = threading.Event()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        environment = {"OMP_NUM_THREADS": "1", **os.environ}
        if spec.own_temporary:  # what the child leaves behind when it is killed goes with the folder
            self._folder = tempfile.TemporaryDirectory(prefix=TEMPORARY, ignore_cleanup_errors=True)
            environment |= dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder.name)
        paths = [os.path.abspath(path) for path in sys.path]  # "" is the folder of now
        self._outbox.put(pickle.dumps((paths, pickle.dumps(spec))))
        self._popen = self._started(environment)
        work = ((self._read, "messages"), (self._write, "sending"))
        self._threads = [threading.Thread(target=act, name=f"{spec.name}-{what}", daemon=True) for act, what in work]
        for thread in self._threads:
            thread.start()

    def _started(self, environment: dict[str, str]) -> subprocess.Popen[bytes]:
        # A signal that comes before the child says what it does with it waits.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self.spec.ignored)
        try:
            return subprocess.Popen(
                [sys.executable, "-P", "-c", START, self.spec.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if self.spec.quiet else None,
                env=environment,
                start_new_session=True,  # a group of its own: killed with all it has started
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the number of the signal that ended it."""
        return self._popen.returncode if self._ended.is_set() else None

    def send(self, message: object) -> None:
        """Give the child a message; does not wait. Dropped if the child has ended."""
        self._outbox.put(encode(message, self.spec.trusted))

    def cpu_s(self) -> float:
        """Seconds of work of the process so far; infinite where the system does not say."""
        try:
            after_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return math.inf

    def disconnect(self) -> None:
        """Let the child know that nobody waits for it any more: it ends by itself, after `ProcessSpec.end_s`."""
        self._outbox.put(None)

    def kill(self) -> None:
        """End the child and all it has started. Harmless when repeated."""
        with self._reaping:  # once reaped, its number may belong to somebody else
            if self._popen.returncode is None:
                self._kill_group()

    def wait(self, seconds: float | None = None) -> bool:
        """Whether it has ended after at most so long, and `on_end` is about to be called or was."""
        return self._ended.wait(seconds)

    def close(self, grace_s: float = 0.0) -> None:
        """End the child, by itself within ``grace_s`` or else by force, and wait for that. Harmless when repeated."""
        self.disconnect()
        if grace_s:
            self.wait(grace_s)
        self.kill()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)

    def _read(self) -> None:
        assert self._popen.stdout is not None
        with self._popen.stdout as pipe:
            while (data := read_frame(pipe)) is not None:
                try:
                    message = decode(data, self.spec.trusted)
                except Exception:  # no child of ours says such a thing
                    log.exception("a message of %s cannot be read", self.spec.name)
                    break
                try:
                    self._on_message(message)
                except Exception:
                    log.exception("a message of %s could not be dealt with", self.spec.name)
        with self._reaping:
            self._kill_group()
            self._popen.wait()
        if self._folder is not None:
            self._folder.cleanup()
        self._outbox.put(None)
        self._ended.set()
        self._on_end(self)

    def _write(self) -> None:
        assert self._popen.stdin is not None
        with contextlib.suppress(OSError), self._popen.stdin as pipe:  # the child may have ended
            while (data := self._outbox.get()) is not None:
                write_frame(pipe, data)
