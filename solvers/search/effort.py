"""How hard a search tries, as limits of counted work: the same on every machine."""

from __future__ import annotations

from enum import StrEnum

SHARES = {"quick": 0.15, "normal": 1.0, "thorough": 8.0}


class Effort(StrEnum):
    """A share of the evaluations, steps and rounds that a planner counts; NORMAL is what its options say."""

    QUICK = "quick"
    NORMAL = "normal"
    THOROUGH = "thorough"

    def of(self, count: int) -> int:
        """This effort's share of what is done at normal effort, at least 1 of 1 or more."""
        return max(round(count * SHARES[self.value]), min(count, 1))
