"""How much a search did, counted so that searches can be compared on any machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """states: table entries a dynamic program filled in. relaxations: transitions it tried between them."""

    states: int = 0
    relaxations: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.states + other.states, self.relaxations + other.relaxations)

    def __str__(self) -> str:
        return f"{self.states:,} states and {self.relaxations:,} relaxations"
