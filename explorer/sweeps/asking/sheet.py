"""All questions of a sweep in one text: what is sent to a cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import explorer.question
import explorer.sweeps.asking
import solvers
from explorer.library.made_by import versions
from explorer.question.graphs.sources import sources_hash
from explorer.sweeps.asking.questions import GraphText, Question, graph_text, question_text
from solvers.formats.json_fields import Field
from solvers.formats.json_text import dump_json, parse_json

MAX_QUESTIONS = 100_000
MAX_GRAPHS = 1_000
MAX_CHARACTERS = 256 * 2**20
SHEET = "questions.json"
"""Its name in the package."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """graphs: key -> text. questions: by position the key of its graph and its text, None for one that needs no answer.
    before: as `Order` wants it. known: position -> the plan of an answer that is there, as `start_text`, "" for an
    answer without one. code: `code_hash` of whoever asks."""

    graphs: Mapping[str, str]
    questions: Sequence[tuple[str, str] | None]
    before: Sequence[Sequence[int]]
    known: Mapping[int, str]
    code: str

    @property
    def name(self) -> str:
        """The same for the same questions, whichever of them are known."""
        found = hashlib.sha256(self.code.encode())
        for question in self.questions:
            found.update(b"\n" + dump_json(question).encode())
        return found.hexdigest()[:24]

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
    places = [Path(str(module.__file__)).parent for module in (solvers, explorer.question, explorer.sweeps.asking)]
    return hashlib.sha256(" ".join(map(sources_hash, places)).encode()).hexdigest()[:16]


def version_words(code: str) -> str:
    """ "0.1.0 (code 1f2e3d...)"."""
    return f"{versions()['placement-explorer']} (code {code[:8]})"
