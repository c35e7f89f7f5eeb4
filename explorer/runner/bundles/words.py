"""What other processes and machines say, made fit for a line of a terminal or a page."""

from __future__ import annotations

from solvers.errors import printable

MAX_WORDS = 2000


def one_line(words: str, most: int = MAX_WORDS) -> str:
    """In one line, at most ``most`` characters, without anything that a terminal would obey (escape codes)."""
    shown = " ".join(printable(words[: 4 * most]).split())
    return shown if len(shown) <= most else shown[: most - 1] + "…"
