"""What other processes and machines say, made fit for a line of a terminal or a page."""

from __future__ import annotations

from typing import Annotated

from solvers.errors import printable
from solvers.formats.json_fields import MAX_TEXT
from solvers.formats.records import Read

MAX_WORDS = 2000


def one_line(words: str, most: int = MAX_WORDS) -> str:
    """In one line, at most ``most`` characters, without anything that a terminal would obey (escape codes)."""
    shown = " ".join(printable(words[: 4 * most]).split())
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def line(most: int = MAX_TEXT) -> Read:
    """Reads a text of at most ``most`` characters as one line."""
    return lambda field: one_line(field.text(most))


Words = Annotated[str, line()]
Name = Annotated[str, line(100)]
