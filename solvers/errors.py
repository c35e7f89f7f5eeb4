"""The errors of the project. Infeasible, timeout and cancel are statuses of a Result, never errors."""

from __future__ import annotations

from typing import ClassVar

MAX_WORD = 80
"""Characters that a word keeps in a message that is too long: a number of thousands of digits, a name without end."""
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), " ")


class PlacementError(Exception):
    """Base of every error raised on purpose; its message is one line a user can act on, whatever it quotes."""

    longest: ClassVar[int] = 500
    """Characters of its message."""

    def __str__(self) -> str:
        return one_line(super().__str__(), self.longest)


class InvalidProblem(PlacementError, ValueError):
    """The graph, cluster, costs or options do not describe a problem (bad input)."""


class UnsupportedProblem(PlacementError):
    """The planner cannot represent this problem; the message says which part."""


class InvalidPlan(PlacementError):
    """A plan breaks a rule: from a file, bad input; from a planner, a defect of the planner."""


class NoLink(InvalidPlan):
    """A plan sends tensors between devices that no link joins: it does not fit the cluster."""


class TraceError(PlacementError):
    """A model could not be turned into an operator graph."""


class RunError(PlacementError):
    """Executing a plan failed."""

    longest = 2000  # what the processes and machines said that it ran on


def printable(words: str) -> str:
    """The same without anything that a terminal would obey (escape codes, line breaks): blanks instead."""
    return words.translate(_CONTROLS)


def one_line(words: str, most: int = PlacementError.longest) -> str:
    """A message in one line of at most ``most`` characters that says what it said: if it is too long, its longest words
    lose their middle, and if that is not enough, it does itself."""
    pieces = printable(words).split()
    line = " ".join(pieces)
    if len(line) > most:
        line = _cut(" ".join(_cut(piece, MAX_WORD) for piece in pieces), most)
    return line


def _cut(words: str, most: int) -> str:
    if len(words) <= most:
        return words
    end = (most - 3) // 3
    return f"{words[: most - 3 - end]}...{words[-end:]}"
