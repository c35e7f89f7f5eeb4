"""While a planner searches, a plan runs or many questions are asked: a line that says how far it is, and Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from explorer.words import text
from solvers.errors import printable
from solvers.kernels import compiling
from solvers.plan.plan import Plan
from solvers.plan.result import Progress

if TYPE_CHECKING:
    from explorer.runner.targets.target import RunProgress
    from explorer.sweeps.execution.queue import Course

REDRAW_S = 0.1
REDRAW_WORK_S = 0.5
COMPILING = "compiling kernels, once per installation; not counted against the time limit"
COMPILING_S = 0.5
"""What takes less is not said."""
HEED_S = 0.5
"""From a signal until a search that does not ask whether to stop is interrupted."""
AGAIN_S = 5.0
"""How often it is said again where no line is redrawn."""
WIDTH = 78
"""Columns of a terminal that are safe to redraw."""
MAX_WIDTH = 100


@dataclass
class Line:
    """One line on a terminal, redrawn in place; nothing where the stream is none."""

    stream: TextIO
    drawn_s: float = field(default=0.0, kw_only=True)
    width: int = field(default=0, kw_only=True)

    def due(self, *, changed: bool = False) -> bool:
        """Whether it is to be drawn again, which is not sooner than after REDRAW_S unless something changed."""
        now = time.perf_counter()
        if not self.stream.isatty() or (not changed and now - self.drawn_s < REDRAW_S):
            return False
        self.drawn_s = now
        return True

    def draw(self, line: str) -> None:
        self.stream.write("\r" + line.ljust(self.width))
        self.stream.flush()
        self.width = len(line)

    def clear(self) -> None:
        if self.width:
            self.draw("")
            self.stream.write("\r")
            self.stream.flush()


@dataclass
class ProgressLine(Line):
    """How far a search is. before: said first, which of several searches this is."""

    before: str = ""

    def __call__(self, step: Progress, _: Plan | None) -> None:
        if not self.due():
            return
        gap = max(0.0, 1 - step.bound_s / step.objective_s) if 0 < step.objective_s < float("inf") else None
        self.draw(
            f"{self.before}{step.elapsed_s:.1f} s  best {text.seconds(step.objective_s)}"
            f"  bound {text.seconds(step.bound_s)}"
            f"  gap {text.percent(gap)}  (Ctrl-C keeps the best)"
        )


@contextmanager
def report_compiling(stream: TextIO | None = None) -> Iterator[Callable[[str, float], None]]:
    """Report on ``stream`` (stderr) when kernels are compiled, which, and the seconds it takes: on a terminal in a line
    that is redrawn, elsewhere now and then in another. Yields who is to be notified of those that others compile."""
    stream = sys.stderr if stream is None else stream
    shown, shown_s = False, 0.0

    def report(kernel: str, seconds: float) -> None:
        nonlocal shown, shown_s
        if not shown and seconds >= COMPILING_S:
            shown = True
            stream.write(COMPILING + "\n")
        if kernel and seconds >= shown_s + AGAIN_S and not stream.isatty():
            shown_s = seconds
            stream.write(compiling.words(kernel, seconds) + "\n")
        if shown and stream.isatty():
            line = f"{compiling.words(kernel, seconds)}" if kernel else ""
            stream.write("\r" + line.ljust(WIDTH)[:WIDTH] + ("" if kernel else "\r"))
        stream.flush()

    with compiling.Compiling(report=report):
        yield report


@contextmanager
def working(what: str, stream: TextIO | None = None) -> Iterator[Callable[[int], None]]:
    """On a terminal: ``what`` and the seconds it has taken, until it is done. Yields who is to be given the number of
    calls so far, where some are counted."""
    stream = sys.stderr if stream is None else stream
    calls = 0

    def count(so_far: int) -> None:
        nonlocal calls
        calls = so_far

    if not stream.isatty():
        yield count
        return
    done, line = threading.Event(), Line(stream)
    began = time.perf_counter()

    def redraw() -> None:
        while True:
            counted = f", {text.plural(calls, 'call')} so far" if calls else ""
            line.draw(f"{what} ... {time.perf_counter() - began:.0f} s{counted}")
            if done.wait(REDRAW_WORK_S):
                return

    thread = threading.Thread(target=redraw, daemon=True)
    thread.start()
    try:
        yield count
    finally:
        done.set()
        thread.join()
        line.clear()


class _Stop(threading.Event):
    """An event; whether a signal has set it, and whether somebody has seen it set."""

    raised = heeded = False

    def is_set(self) -> bool:
        self.heeded = super().is_set()
        return self.heeded


@contextmanager
def stop_on_interrupt(
    numbers: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM),
) -> Iterator[threading.Event]:
    """The event is set by the first Ctrl-C or SIGTERM (of `kill`, `timeout` or a batch system). A second one raises
    KeyboardInterrupt, and so does this where nobody has looked at the event HEED_S later. numbers: of the signals that
    set it."""
    stop = _Stop()

    def on_signal(number: int, _: FrameType | None) -> None:
        if not stop.raised:
            stop.raised = True
            stop.set()
            signal.signal(signal.SIGALRM, on_signal)
            signal.setitimer(signal.ITIMER_REAL, HEED_S)
        elif number != signal.SIGALRM or not stop.heeded:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may handle signals
        return
    before = {number: signal.signal(number, on_signal) for number in numbers}
    alarmed = signal.getsignal(signal.SIGALRM)
    try:
        yield stop
    finally:
        if stop.raised:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarmed)
        for number, handler in before.items():
            signal.signal(number, handler)


def progress_line() -> ProgressLine:
    return ProgressLine(sys.stderr)


@dataclass
class RunLine(Line):
    """Of a run on ``target``. Lines of the log are left out, but for which rank stands still."""

    target: str
    began_s: float = field(default_factory=time.perf_counter)
    phase: str = ""

    def __call__(self, progress: RunProgress) -> None:
        if progress.stall:
            self.clear()
            print(f"placement-explorer: warning: {printable(progress.stall)}", file=self.stream, flush=True)
        if not self.due(changed=progress.phase != self.phase):
            return
        self.phase = progress.phase
        count = f" {progress.done} of {progress.of}" if progress.of else ""
        took_s, phase = self.drawn_s - self.began_s, printable(progress.phase)
        self.draw(f"{took_s:.1f} s  {self.target}: {phase}{count}  (Ctrl-C ends the run)"[:MAX_WIDTH])


@dataclass
class SweepLine(Line):
    """words: of every question; where: who is asked, "" for this machine."""

    words: Sequence[str]
    where: str = ""

    def __call__(self, course: Course) -> None:
        """How far it is."""
        if not self.due():
            return
        known = f" ({course.cached:,} known)" if course.cached else ""
        on = f" on {self.where}" if self.where else ""
        line = f"{course.done:,} of {len(self.words):,} done{known}, {len(course.running):,} running{on}"
        if course.running:
            line += f": {self.words[course.running[0]]}"
        self.draw(line[: WIDTH - 22] + "  (Ctrl-C keeps rows)")

    def row(self, position: int, outcome: str) -> None:
        """A row that came: it stays above the line."""
        if self.stream.isatty():
            self.clear()
            self.stream.write(f"{self.words[position]}: {outcome}\n")
            self.stream.flush()
