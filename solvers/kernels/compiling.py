"""While numba compiles a kernel: how long it takes, and who wants to know.

A kernel is compiled once per installation, at its first use, and kept on disk. That is nobody's search
time: `solve` takes it off, the terminal and the page say that it goes on.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType
from typing import Any

LOCK = "numba:compiler_lock"
"""The event numba broadcasts around getting a kernel ready: compiled, loaded from disk, or awaited."""
COMPILE = "numba:compile"
"""The event within it around a compilation."""
REPORT_EVERY_S = 0.5
TOOK = "compiling kernels took"
"""How a note of a result begins that is about one run, and not about its answer."""

Report = Callable[[str, float], None]
"""The kernel being compiled ("" when it is done) and the seconds spent on compiling so far."""


def nobody(_: str, __: float) -> None:
    return None


@dataclass(eq=False)
class Compiling:
    """The seconds this thread spends on getting kernels ready while the object is entered (a context manager).

    A kernel compiles those that it calls within its own compilation: only the outermost one is timed, and
    its name given. report is called when a compilation begins, when it ends, and in between as kernels within
    it begin and end, at most every REPORT_EVERY_S; it must not call kernels.
    """

    clock: Callable[[], float] = time.perf_counter
    report: Report = nobody
    kernels: list[str] = field(default_factory=list, init=False)
    """Names of the outermost ones that this thread compiled."""
    _locks: int = field(default=0, init=False)
    _depth: int = field(default=0, init=False)
    _began_s: float = field(default=0.0, init=False)
    _sent_s: float = field(default=0.0, init=False)
    _done_s: float = field(default=0.0, init=False)
    _thread: int = field(default=0, init=False)

    def __enter__(self) -> Compiling:
        self._thread = threading.get_ident()
        if "numba" in sys.modules:
            listen()
        _entered.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        _entered.remove(self)

    @property
    def seconds(self) -> float:
        """Spent so far, on the kernel at hand too."""
        return self._done_s + (self.clock() - self._began_s if self._locks else 0.0)

    def on_start(self, begun: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if begun.kind == LOCK:
            if not self._locks:
                self._began_s = self.clock()
            self._locks += 1
            return
        self._depth += 1
        if self._depth == 1:
            self.kernels.append(_name(begun.data["dispatcher"].py_func))
            self._pass_on()
        else:
            self._report_if_due()

    def on_end(self, ended: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        if ended.kind == LOCK:
            if self._locks == 1:
                self._done_s = self.seconds
            self._locks = max(0, self._locks - 1)
            return
        self._depth = max(0, self._depth - 1)
        if self._depth:
            self._report_if_due()
        else:
            self.report("", self.seconds)

    def _report_if_due(self) -> None:
        if self.clock() - self._sent_s >= REPORT_EVERY_S:
            self._pass_on()

    def _pass_on(self) -> None:
        self._sent_s = self.clock()
        self.report(self.kernels[-1], self.seconds)


_entered: list[Compiling] = []
"""Those that are entered, of all threads."""


@cache
def listen() -> None:
    """Pass numba's events on to those that are entered. To be called once numba is imported, which takes long."""
    from numba.core import event

    class Events(event.Listener):
        def on_start(self, event: Any) -> None:
            for one in tuple(_entered):
                one.on_start(event)

        def on_end(self, event: Any) -> None:
            for one in tuple(_entered):
                one.on_end(event)

    for kind in (LOCK, COMPILE):
        event.register(kind, Events())  # type: ignore[no-untyped-call]


def _name(kernel: Callable[..., object]) -> str:
    """ "pipeline draft": the file's name, which says more than the function's."""
    return kernel.__module__.rpartition(".")[2].removesuffix("_kernel").replace("_", " ").strip()


def words(kernel: str, seconds: float) -> str:
    """What is going on, for people."""
    return f"compiling kernels, once: {kernel} ({seconds:.0f} s so far)"
