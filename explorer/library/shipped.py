"""Answers that ship: of the page's first question there is one before anything is compiled or searched.

``python -m explorer.jobs.shipping`` searches for them again; a test says when that is due.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path

import solvers
from explorer.files import write_file
from explorer.library.answer import KNOWN, read_answer, write_answer
from explorer.library.place import LibraryTrouble
from explorer.library.question_key import SearchQuestion
from explorer.question.graphs.sources import code_hash, written_hash
from explorer.words import text
from solvers.formats.json_fields import Field
from solvers.formats.json_text import MAX_BYTES, parse_json
from solvers.plan.result import Result, StopReason

FOLDER = Path(__file__).parent / "answers"
ENGINE = (Path(str(solvers.__file__)).parent,)
"""The code that searches."""


def find(question: SearchQuestion, folder: Path = FOLDER) -> Result | None:
    """The answer that ships to this very question, checked as one from a library is, with a note that says when it was
    found; None where there is none, or where the code that searched is another one now.

    Raises PlacementError for one that is damaged, or does not verify.
    """
    path = folder / _name(question)
    if not question.nameable or not path.is_file():
        return None
    try:
        with gzip.open(path, "rb") as file:
            parts = Field(parse_json(file.read(MAX_BYTES), path.name), path.name).fields(
                ("written", "code", "date", "answer")
            )
    except (OSError, EOFError, zlib.error) as error:
        raise LibraryTrouble(f"the answer that ships in {path.name} cannot be read: {error}") from None
    if _written() != parts["written"].text() and code_hash(ENGINE) != parts["code"].text():
        return None
    result = read_answer(json.dumps(parts["answer"].value).encode(), question)
    note = f"{KNOWN} {parts['date'].text()}, {text.seconds(result.runtime_s)} then: it comes with the program"
    return replace(result, notes=(*result.notes, note))


def store(question: SearchQuestion, result: Result, reference: str, date: str, folder: Path = FOLDER) -> Path:
    """Write what `find` is to find. date: of the search, "2026-11-23". Raises LibraryTrouble unless the search came to
    its end."""
    if not question.nameable or result.stop_reason is not StopReason.FINISHED:
        raise LibraryTrouble(f"a search that ended by {result.stop_reason.value} is no answer to ship")
    held = {
        "written": _written(),
        "code": code_hash(ENGINE),
        "date": date,
        "answer": json.loads(write_answer(question, result, reference)),
    }
    path = folder / _name(question)
    packed = gzip.compress(json.dumps(held, separators=(",", ":")).encode(), 9, mtime=0)
    write_file(path, packed, "packing an answer that ships")
    return path


def _name(question: SearchQuestion) -> str:
    return f"{question.question[:16]}.json.gz"


@cache
def _written() -> str:
    return written_hash(ENGINE)
