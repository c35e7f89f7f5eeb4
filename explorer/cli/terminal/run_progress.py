"""While a plan runs: one line on a terminal that says how far it is."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from explorer.cli.terminal.progress import Line
from explorer.runner.targets.target import RunProgress
from solvers.errors import printable

MAX_WIDTH = 100


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
        if not self.due(news=progress.phase != self.phase):
            return
        self.phase = progress.phase
        count = f" {progress.done} of {progress.of}" if progress.of else ""
        took_s, phase = self.drawn_s - self.began_s, printable(progress.phase)
        self.draw(f"{took_s:.1f} s  {self.target}: {phase}{count}  (Ctrl-C ends the run)"[:MAX_WIDTH])
