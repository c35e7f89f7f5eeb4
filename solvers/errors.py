"""The errors of the project. Infeasible, timeout and cancel are statuses of a Result, never errors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import ClassVar

MAX_WORD = 80
"""Characters that a word keeps in a message that is too long: a number of thousands of digits, a name without end."""
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff0-\ufffb"
    "\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(1, 17))
    + "]"
)
"""Controls, line ends, surrogates, non-characters, and formats that are not seen or that turn what is read around. The
joiners U+200C and U+200D stay: they are letters' and emoji's."""


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
    """The words with blanks in place of control characters.

    These are what a terminal, a page or a text file would obey instead of showing it (escape codes, line breaks, marks
    that change the direction of writing), and what UTF-8 cannot encode.
    """
    return words if words.isprintable() else _UNPRINTABLE.sub(" ", words)


def printable_lines(words: str, ends: tuple[str, ...] = ("\n",)) -> str:
    """The same of a text of several lines; what is in ``ends`` stays where it is."""
    if not ends:
        return printable(words)
    return ends[0].join(printable_lines(part, ends[1:]) for part in words.split(ends[0]))


def one_line(words: str, most: int = PlacementError.longest) -> str:
    """A message in one line of at most ``most`` characters.

    If it is too long, its longest words lose their middle, and if that is not enough, the line does.
    """
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


def earlier_names(**today: str) -> Callable[[object, str], object]:
    """Make a class's ``__getattr__``, by which attributes are there under their earlier names, too, with a warning.

    Args:
        today: Earlier name=name of today.
    """

    def look_up(self: object, name: str) -> object:
        if name not in today:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        warnings.warn(f"{type(self).__name__}.{name} is {today[name]} now", DeprecationWarning, stacklevel=2)
        return getattr(self, today[name])

    return look_up
