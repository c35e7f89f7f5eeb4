"""A row of the library: what is shown of an answer in a list, the answer itself, a checksum of all of it,
and which of two answers is kept."""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from explorer.library.answer import KNOWN
from explorer.library.made_by import versions
from explorer.library.place import LibraryTrouble
from explorer.words import text
from solvers.errors import printable
from solvers.formats.json_text import MAX_BYTES, dump_json, finite_or_none
from solvers.plan.result import Result, Status, StopReason

if TYPE_CHECKING:
    from explorer.library.question_key import SearchQuestion

COLUMNS = (
    "question", "graph", "model", "planner", "effort", "objective", "devices", "status", "stop_reason", "objective_s",
    "bound_s", "seconds", "kept_at", "versions",
)  # fmt: skip
"""Of the table `answers`, before the answer and the checksum."""
TYPES: tuple[type | tuple[type, ...], ...] = (
    str, str, str, str, str, str, int, str, str, (float, type(None)), (float, type(None)), float, str, str,
)  # fmt: skip
LEVEL = 6
"""Of zlib."""
_HASH = re.compile("[0-9a-f]{64}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
ALIKE = 1e-9
"""Relative difference of objectives that are one and the same."""


@dataclass(frozen=True)
class Listed:
    """What is shown of an answer. seconds: how long the search took. kept_at: UTC, ISO 8601. made_by: `versions` of
    then. nbytes: of the answer in the file, without its graph, which others may share."""

    question: str
    graph: str
    model: str
    planner: str
    effort: str
    objective: str
    devices: int
    status: str
    stop_reason: str
    objective_s: float
    bound_s: float
    seconds: float
    kept_at: str
    made_by: Mapping[str, str] = field(default_factory=dict)
    nbytes: int = 0

    @property
    def gap(self) -> float:
        """(objective - bound) / objective; inf without a plan."""
        if math.isinf(self.objective_s):
            return math.inf
        return max(0.0, 1 - self.bound_s / self.objective_s) if self.objective_s > 0 else 0.0

    @property
    def since(self) -> str:
        """ "cached result of 2026-11-23, the search took 4.2 s"."""
        ended = ", when the time limit ended it" if self.stop_reason == StopReason.TIME_LIMIT else ""
        return f"{KNOWN} {self.kept_at[:10]}, the search took {text.seconds(self.seconds)}{ended}"

    @property
    def is_current(self) -> bool:
        """Whether the code of today made it: others are never found, and only take room."""
        return self.made_by == versions()


def row_of(question: SearchQuestion, result: Result, model: str, now: datetime | None = None) -> tuple[object, ...]:
    """All columns. Raises ValueError for what no answer is."""
    from explorer.library.answer import write_answer  # whoever lists answers needs no kernels
    from explorer.library.question_key import graph_sha256

    columns = (
        question.hash, graph_sha256(question.problem.as_traced.graph), model, result.planner, question.effort.value,
        question.problem.objective.value, len(question.problem.cluster.accelerators), result.status.value,
        result.stop_reason.value, finite_or_none(float(result.objective_s)), finite_or_none(float(result.bound_s)),
        float(result.runtime_s), (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"), dump_json(dict(versions())),
    )  # fmt: skip
    answer = packed(write_answer(question, result, model))
    return (*columns, answer, checksum(columns, answer))


def read_row(row: Sequence[object]) -> tuple[Listed, bytes]:
    """What is shown, and the text of the answer. Raises LibraryTrouble for a row that is not as it was written."""
    columns, answer, stated = tuple(row[: len(COLUMNS)]), row[-2], row[-1]
    if not isinstance(answer, bytes) or checksum(columns, answer) != stated:
        raise LibraryTrouble("it is damaged")
    return listed(columns, len(answer)), unpacked(answer)


def listed(columns: Sequence[object], nbytes: int) -> Listed:
    """Raises LibraryTrouble for columns of other types."""
    if not all(map(isinstance, columns, TYPES)):
        raise LibraryTrouble("it is damaged")
    one = dict(zip(COLUMNS, columns, strict=True))
    if not (_HASH.fullmatch(str(one["question"])) and _DATE.fullmatch(str(one["kept_at"]))):
        raise LibraryTrouble("it is damaged")
    try:
        made_by = json.loads(str(one.pop("versions")))
    except (ValueError, RecursionError):
        made_by = {}
    for name in ("objective_s", "bound_s"):
        one[name] = math.inf if one[name] is None else one[name]
    texts = {str(key): printable(str(value)) for key, value in made_by.items()} if isinstance(made_by, dict) else {}
    return Listed(**one, made_by=texts, nbytes=nbytes)  # type: ignore[arg-type]


def checksum(columns: tuple[object, ...], answer: bytes) -> bytes:
    return hashlib.sha256(repr(columns).encode("utf-8", "replace") + b"\n" + answer).digest()


def packed(words: str) -> bytes:
    return zlib.compress(words.encode(), LEVEL)


def unpacked(content: bytes) -> bytes:
    """Raises LibraryTrouble for what is no text that was packed, or grows beyond what is ever read."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(content, MAX_BYTES)
    except zlib.error:
        raise LibraryTrouble("it is damaged") from None
    if not unpacker.eof:
        raise LibraryTrouble(f"it is cut short, or has more than {MAX_BYTES:,} bytes")
    return text


def worth_keeping(result: Result) -> bool:
    """Whether it is an answer: complete, or as far as its time limit let it come. Nobody's cancel is one, and that
    nothing was found in some time says little."""
    if result.stop_reason is StopReason.CANCELLED:
        return False
    return result.status is not Status.NO_PLAN or result.stop_reason is not StopReason.TIME_LIMIT


def is_better(result: Result, listed: Listed, seconds: tuple[float, float] | None = None) -> bool:
    """Than the cached answer: a better plan, or the same with more proved, or with the search at its end. seconds: of
    both, where they are compared by something else than the objective."""
    takes_s, took_s = (result.objective_s, listed.objective_s) if seconds is None else seconds
    if not math.isclose(takes_s, took_s, rel_tol=ALIKE):
        return takes_s < took_s
    if not math.isclose(result.bound_s, listed.bound_s, rel_tol=ALIKE):
        return result.bound_s > listed.bound_s
    return listed.stop_reason == StopReason.TIME_LIMIT and result.stop_reason is not StopReason.TIME_LIMIT
