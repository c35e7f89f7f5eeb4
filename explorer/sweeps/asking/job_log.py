"""What a job of questions tells through its log, the one thing that comes back from a cluster.

    @answer 12 1/2 eJyN...        a part of the answer at position 12, zipped, in base64
    @course [3, 4] 8              what is being asked, and how many could be at the same time
    @refusal {"reason": ...}      why the job gave up

The functions write these lines on the cluster, `AnswerLog` reads them here, where they are a stranger's text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from explorer.runner.targets.ray_log import MAX_REASON, GrowingText, clean_line, packed_lines, reason_of, unpacked
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, parse_json

ANSWER, COURSE, REFUSAL = "@answer ", "@course ", "@refusal "
MAX_PARTS = 10_000
MAX_ANSWER_BYTES = 64 * 2**20
MAX_RUNNING = 100_000
_ANSWER = re.compile(r"@answer (\d{1,6}) (\d{1,6})/(\d{1,6}) ([A-Za-z0-9+/=]+)")


def answer_lines(position: int, text: str) -> list[str]:
    return packed_lines(f"{ANSWER}{position} ", text)


def course_line(running: list[int]) -> str:
    return COURSE + dump_json(running)


def refusal_line(reason: str) -> str:
    return REFUSAL + dump_json({"reason": clean_line(" ".join(reason.split()))[:MAX_REASON]})


@dataclass(eq=False)
class AnswerLog:
    """Reads a job's log, which is given whole and longer each time. running: what is being asked; refusal: why the job
    gave up, "" if it did not say; last: the last line that is none of ours."""

    running: tuple[int, ...] = ()
    refusal: str = ""
    last: str = ""
    _growing: GrowingText = field(default_factory=GrowingText)
    _parts: dict[int, list[str]] = field(default_factory=dict)

    def feed(self, text: str, *, ended: bool = False) -> list[tuple[int, str]]:
        """(position, text) of the answers that are new and whole, in the order in which they came."""
        lines = self._growing.new_lines(text, ended)
        return [answer for line in lines if (answer := self._take(line)) is not None]

    def _take(self, line: str) -> tuple[int, str] | None:
        if line.startswith(ANSWER):
            return self._take_part(line)
        try:
            if line.startswith(COURSE):
                course = Field(parse_json(line.removeprefix(COURSE), "line"), "line")
                self.running = tuple(item.integer() for item in course.items(MAX_RUNNING))
                return None
            if line.startswith(REFUSAL):
                parts = Field(parse_json(line.removeprefix(REFUSAL), "line"), "line").fields(("reason",))
                self.refusal = self.refusal or reason_of(parts["reason"])
                return None
        except InvalidProblem:
            pass
        self.last = clean_line(line).strip() or self.last
        return None

    def _take_part(self, line: str) -> tuple[int, str] | None:
        """Parts come whole and in order; others are passed over, and their answer is never there."""
        match = _ANSWER.fullmatch(line)
        if match is None:
            return None
        position, number, of = int(match[1]), int(match[2]), int(match[3])
        parts = self._parts.setdefault(position, [])
        if not number == len(parts) + 1 <= of <= MAX_PARTS:
            return None
        parts.append(match[4])
        if number < of:
            return None
        text = unpacked(self._parts.pop(position), MAX_ANSWER_BYTES)
        return None if text is None else (position, text)
