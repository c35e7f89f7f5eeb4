"""The name that was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str:
    """A question to append to "there is no ...": the known name that is most like ``name``, in any case."""
    by_lower = {one.lower(): one for one in known}
    match = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.5)
    return f"; did you mean {by_lower[match[0]]!r}?" if match else ""
