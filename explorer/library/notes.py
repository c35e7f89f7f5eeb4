"""How an answer says that it is from a library: in its notes, which every place that shows answers shows."""

from __future__ import annotations

from collections.abc import Sequence

KNOWN = "known since"
"""How that note begins."""


def is_known(notes: Sequence[str]) -> bool:
    """Whether these are the notes of an answer from a library."""
    return any(note.startswith(KNOWN) for note in notes)
