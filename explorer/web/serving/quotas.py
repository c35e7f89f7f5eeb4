"""How much of a server one visitor may have, so that the others have some of it too."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from explorer.jobs.requests import CompareRequest, HelpRequest, RemedyRequest, Request, SolveRequest, SweepRequest
from explorer.question.settings import MAX_TIME_LIMIT_S
from explorer.question.written.quantities import parse_bytes
from explorer.words import text
from solvers.errors import InvalidProblem

MIB = 2**20
BURST_S = 15.0
"""Seconds of questions that a visitor who asked nothing may ask at once: somebody drags a slider."""
MANY = 10.0
"""What a comparison, a sweep or a look for changes counts as: each asks many questions."""
LOOK = 0.25
"""What a question counts as that searches nothing: an export, a look at a plan or a file."""
WORTH: dict[type, float] = {
    SolveRequest: 1.0, CompareRequest: MANY, HelpRequest: MANY, SweepRequest: MANY, RemedyRequest: MANY,
}  # fmt: skip
"""What a request counts as, if not as a look."""
HOUR_S = 3600.0
REMEMBERED = 1024
"""Visitors at most, of those without a page; who was here longest ago is forgotten first."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """Of one visitor. questions_per_s: over a while, see BURST_S. search_s: seconds that a question may ask for.
    upload_bytes: an hour. held_bytes: of files that stay on the server; one's own oldest leave for new ones. pages:
    open at once. The usual ones limit nothing but what limits all."""

    questions_per_s: float = math.inf
    search_s: float = MAX_TIME_LIMIT_S
    upload_bytes: float = math.inf
    held_bytes: float = math.inf
    pages: float = math.inf


UNLIMITED = Quotas()
SHARED = Quotas(2.0, 60.0, 512.0 * MIB, 256.0 * MIB, 16.0)
"""Of a server for others, unless its owner says otherwise."""


def read_quotas(given: Iterable[str], usual: Quotas) -> Quotas:
    """``usual`` but for what is given: "questions=5", "upload=2GiB", "seconds=none". Raises InvalidProblem."""
    quotas = usual
    for each in given:
        name, _, value = each.partition("=")
        if name not in FIELDS or not value:
            raise InvalidProblem(f"--quota {each}: expected NAME=VALUE, NAME one of {', '.join(FIELDS)}")
        field, reader = FIELDS[name]
        try:
            amount = getattr(UNLIMITED, field) if value == "none" else reader(value)
        except ValueError as error:
            raise InvalidProblem(f"--quota {each}: {error}") from None
        if not amount > 0 or (field == "search_s" and amount > MAX_TIME_LIMIT_S):
            most = f", at most {MAX_TIME_LIMIT_S:g}" if field == "search_s" else ""
            raise InvalidProblem(f"--quota {each}: expected more than 0{most}, or none")
        quotas = replace(quotas, **{field: amount})
    return quotas


def _number(value: str) -> float:
    try:
        amount = float(value)
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise InvalidProblem("expected a number")
    return amount


FIELDS: dict[str, tuple[str, Callable[[str], float]]] = {
    "questions": ("questions_per_s", _number),
    "seconds": ("search_s", _number),
    "upload": ("upload_bytes", parse_bytes),
    "held": ("held_bytes", parse_bytes),
    "pages": ("pages", _number),
}
"""By what the command line calls a quota: its field, and how its value is read."""


class Visitor:
    """What one visitor has had. clock: seconds that only grow."""

    def __init__(self, name: str, quotas: Quotas, clock: Callable[[], float]) -> None:
        self.name, self.quotas, self.pages = name, quotas, 0
        self._questions = _Bucket(max(MANY, quotas.questions_per_s * BURST_S), quotas.questions_per_s, clock)
        self._bytes = _Bucket(quotas.upload_bytes, quotas.upload_bytes / HOUR_S, clock)

    def charge(self, worth: float = 1.0) -> str:
        """Count a question; why it is refused now, or ""."""
        wait_s = self._questions.take(worth)
        if not wait_s:
            return ""
        return (
            f"one visitor may ask {self.quotas.questions_per_s:g} questions a second here (a comparison or a sweep"
            f" counts as {MANY:g}); ask again in {math.ceil(wait_s)} s"
        )

    def may_ask(self, request: Request) -> str:
        """See `charge`, for a request of one of the visitor's pages."""
        return self.charge(WORTH.get(type(request), LOOK))

    def hand_in(self, nbytes: int) -> str:
        """Take note of a file; why it may not be handed in now, or ""."""
        if nbytes > self.quotas.held_bytes:
            return f"the files of one visitor may take {text.nbytes(self.quotas.held_bytes)} here"
        wait_s = self._bytes.take(nbytes)
        if not wait_s:
            return ""
        most = f"one visitor may hand in {text.nbytes(self.quotas.upload_bytes)} an hour here"
        return most if math.isinf(wait_s) else f"{most}; try again in {math.ceil(wait_s / 60)} min"


class Visitors:
    """All who were here lately, by name."""

    def __init__(self, quotas: Quotas, clock: Callable[[], float] = time.monotonic) -> None:
        self.quotas, self.clock = quotas, clock
        self._known: OrderedDict[str, Visitor] = OrderedDict()

    def get(self, name: str) -> Visitor:
        if name not in self._known:
            self._known[name] = Visitor(name, self.quotas, self.clock)
        self._known.move_to_end(name)
        gone = [known for known, visitor in self._known.items() if not visitor.pages and known != name]
        for known in gone[: max(0, len(gone) - REMEMBERED)]:
            del self._known[known]
        return self._known[name]


class _Bucket:
    """Full at first; what is taken out comes back at a rate a second."""

    def __init__(self, size: float, rate: float, clock: Callable[[], float]) -> None:
        self.size, self.rate, self.clock = size, rate, clock
        self.left, self.since = size, clock()

    def take(self, worth: float) -> float:
        """Take it and return 0, or leave it and return the seconds until it is there, inf if it never is."""
        if math.isinf(self.size):
            return 0.0
        now = self.clock()
        self.left, self.since = min(self.size, self.left + (now - self.since) * self.rate), now
        if worth <= self.left:
            self.left -= worth
            return 0.0
        return math.inf if worth > self.size else (worth - self.left) / self.rate
