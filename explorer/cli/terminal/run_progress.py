"""While a plan runs: one line on a terminal that says how far it is."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TextIO

from explorer.cli.terminal.progress import REDRAW_S
from explorer.runner.targets.target import RunProgress
from solvers.errors import printable

MAX_WIDTH = 100


@dataclass
class RunLine:
    """Redrawn in place; nothing where the stream is not a terminal. Lines of the log are left out, but for which rank
    stands still."""

    stream: TextIO
    target: str
    began_s: float = field(default_factory=time.perf_counter)
    drawn_s: float = 0.0
    phase: str = ""
    width: int = 0

    def __call__(self, progress: RunProgress) -> None:
        now = time.perf_counter()
        if progress.stall:
            self.clear()
            print(f"placement-explorer: warning: {printable(progress.stall)}", file=self.stream, flush=True)
        if not self.stream.isatty() or (progress.phase == self.phase and now - self.drawn_s < REDRAW_S):
            return
        self.drawn_s, self.phase = now, progress.phase
        count = f" {progress.done} of {progress.of}" if progress.of else ""
        phase = printable(progress.phase)
        line = f"{now - self.began_s:.1f} s  {self.target}: {phase}{count}  (Ctrl-C ends the run)"[:MAX_WIDTH]
        self.stream.write("\r" + line.ljust(self.width))
        self.stream.flush()
        self.width = len(line)

    def clear(self) -> None:
        if self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            self.width = 0
