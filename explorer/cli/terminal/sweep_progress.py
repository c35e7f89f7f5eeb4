"""While many questions are asked: a line that says how many are done and which run, above it every row as it comes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from explorer.cli.terminal.progress import REDRAW_S, WIDTH
from explorer.sweeps.asking.asked import Course


@dataclass
class SweepLine:
    """Drawn on a terminal only. words: of every question; where: who is asked, "" for this machine."""

    stream: TextIO
    words: Sequence[str]
    where: str = ""
    drawn_s: float = 0.0
    width: int = 0

    def __call__(self, course: Course) -> None:
        """How far it is."""
        now = time.perf_counter()
        if not self.stream.isatty() or now - self.drawn_s < REDRAW_S:
            return
        self.drawn_s = now
        known = f" ({course.kept:,} known)" if course.kept else ""
        on = f" on {self.where}" if self.where else ""
        line = f"{course.done:,} of {len(self.words):,} done{known}, {len(course.running):,} running{on}"
        if course.running:
            line += f": {self.words[course.running[0]]}"
        self._draw(line[: WIDTH - 22] + "  (Ctrl-C keeps rows)")

    def row(self, position: int, told: str) -> None:
        """A row that came: it stays above the line."""
        if self.stream.isatty():
            self.clear()
            self.stream.write(f"{self.words[position]}: {told}\n")
            self.stream.flush()

    def clear(self) -> None:
        if self.width:
            self._draw("")
            self.stream.write("\r")
            self.stream.flush()
            self.width = 0

    def _draw(self, line: str) -> None:
        self.stream.write("\r" + line.ljust(self.width))
        self.stream.flush()
        self.width = len(line)
