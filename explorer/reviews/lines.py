"""What a review says: lines, each with a verdict and its reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """PASS: as it should be. WARN: worth knowing before the plan is used. FAIL: it cannot be used as it is."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Line:
    """One question, the answer and why."""

    what: str
    verdict: Verdict
    reason: str


def worst(lines: Iterable[Line]) -> Verdict:
    """The verdict on all of them: that of the worst; PASS if there are none."""
    order = list(Verdict)
    return max((line.verdict for line in lines), key=order.index, default=Verdict.PASS)
