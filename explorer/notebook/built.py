"""The widget's module and css, built from assets/ by the wheel's build and by `make test`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "built"


@cache
def built(name: str) -> str:
    """The text of a built file. Raises ImportError, in one line, if it was not built."""
    path = FOLDER / name
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise ImportError(
            f"the notebook widget is not built ({path} is missing): install a wheel, or in a checkout run `make widget`"
        ) from None
