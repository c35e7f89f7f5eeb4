"""While many questions are asked: a line that says how many are done and which run, above it every row as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from explorer.cli.terminal.progress import WIDTH, Line
from explorer.sweeps.asking.asked import Course


@dataclass
class SweepLine(Line):
    """words: of every question; where: who is asked, "" for this machine."""

    words: Sequence[str]
    where: str = ""

    def __call__(self, course: Course) -> None:
        """How far it is."""
        if not self.due():
            return
        known = f" ({course.kept:,} known)" if course.kept else ""
        on = f" on {self.where}" if self.where else ""
        line = f"{course.done:,} of {len(self.words):,} done{known}, {len(course.running):,} running{on}"
        if course.running:
            line += f": {self.words[course.running[0]]}"
        self.draw(line[: WIDTH - 22] + "  (Ctrl-C keeps rows)")

    def row(self, position: int, told: str) -> None:
        """A row that came: it stays above the line."""
        if self.stream.isatty():
            self.clear()
            self.stream.write(f"{self.words[position]}: {told}\n")
            self.stream.flush()
