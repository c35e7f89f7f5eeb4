"""All questions of a sweep in one text, which is sent to a cluster, and what comes back through the log of its job.

    @answer 12 1/2 eJyN...        a part of the answer at position 12, zipped, in base64
    @course [3, 4] 8              what is being asked, and how many could be at the same time
    @refusal {"reason": ...}      why the job gave up

The functions write these lines on the cluster, `AnswerLog` reads them here, where they are a stranger's text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import explorer.question
import explorer.sweeps.execution
import solvers
from explorer.library.made_by import versions
from explorer.question.graphs.sources import sources_hash
from explorer.runner.targets.ray_log import MAX_REASON, GrowingText, clean_line, packed_lines, reason_of, unpacked
from explorer.sweeps.execution.questions import GraphText, Question, graph_text, question_text
from solvers.errors import InvalidProblem
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, parse_json

MAX_QUESTIONS = 100_000
MAX_GRAPHS = 1_000
MAX_CHARACTERS = 256 * 2**20
SHEET = "questions.json"
"""Its name in the package."""
ANSWER, COURSE, REFUSAL = "@answer ", "@course ", "@refusal "
MAX_PARTS = 10_000
MAX_ANSWER_BYTES = 64 * 2**20
MAX_RUNNING = 100_000
_ANSWER = re.compile(r"@answer (\d{1,6}) (\d{1,6})/(\d{1,6}) ([A-Za-z0-9+/=]+)")


@dataclass(frozen=True, slots=True)
class Sheet:
    """graphs: key -> text. questions: by position the key of its graph and its text, None for one that needs no answer.
    before: as `Order` wants it. known: position -> the plan of an answer that is there, as `start_text`, "" for an
    answer without one. code: `code_hash` of the process that submits it."""

    graphs: Mapping[str, str]
    questions: Sequence[tuple[str, str] | None]
    before: Sequence[Sequence[int]]
    known: Mapping[int, str]
    code: str

    @property
    def name(self) -> str:
        """The same for the same questions, whichever of them are known."""
        digest = hashlib.sha256(self.code.encode())
        for question in self.questions:
            digest.update(b"\n" + dump_json(question).encode())
        return digest.hexdigest()[:24]

    def text(self) -> str:
        """Without the questions that are known."""
        questions = [None if i in self.known else question for i, question in enumerate(self.questions)]
        used = {question[0] for question in questions if question is not None}
        return dump_json(
            {
                "code": self.code,
                "graphs": {key: text for key, text in self.graphs.items() if key in used},
                "questions": questions,
                "before": [list(positions) for positions in self.before],
                "known": [[position, start] for position, start in sorted(self.known.items())],
            }
        )


def make_sheet(
    questions: Sequence[Question | None], before: Callable[[int], Sequence[int]], known: Mapping[int, str]
) -> Sheet:
    """questions: None where there is nothing to ask, which is known then."""
    texts: dict[int, GraphText] = {}
    graphs: dict[str, str] = {}
    written: list[tuple[str, str] | None] = []
    for question in questions:
        if question is None:
            written.append(None)
            continue
        graph = question.problem.as_traced.graph
        text = texts.setdefault(id(graph), graph_text(graph)) if id(graph) not in texts else texts[id(graph)]
        graphs[text.key] = text.text
        written.append((text.key, question_text(question)))
    return Sheet(graphs, written, [before(position) for position in range(len(questions))], known, code_hash())


def read_sheet(text: str) -> Sheet:
    """Raises InvalidProblem."""
    parts = Field(parse_json(text, SHEET), f"{SHEET}:").fields(("code", "graphs", "questions", "before", "known"))
    questions: list[tuple[str, str] | None] = []
    for item in parts["questions"].items(MAX_QUESTIONS):
        if item.is_null:
            questions.append(None)
        else:
            key, question = item.items(2, exactly=2)
            questions.append((key.text(), question.text(MAX_CHARACTERS)))
    last = len(questions) - 1
    known = [item.items(2, exactly=2) for item in parts["known"].items(MAX_QUESTIONS)]
    return Sheet(
        {key: item.text(MAX_CHARACTERS) for key, item in parts["graphs"].mapping(MAX_GRAPHS).items()},
        questions,
        [[one.integer(0, last) for one in item.items(MAX_QUESTIONS)] for item in parts["before"].items(MAX_QUESTIONS)],
        {position.integer(0, last): start.text(MAX_CHARACTERS) for position, start in known},
        parts["code"].text(),
    )


@cache
def code_hash() -> str:
    """Of the sources that answer questions: the same on both sides, or an answer is not what would be found here."""
    places = [Path(str(module.__file__)).parent for module in (solvers, explorer.question, explorer.sweeps.execution)]
    return hashlib.sha256(" ".join(map(sources_hash, places)).encode()).hexdigest()[:16]


def version_words(code: str) -> str:
    """ "0.1.0 (code 1f2e3d...)"."""
    return f"{versions()['placement-explorer']} (code {code[:8]})"


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
