"""Files of operator times that grow: what is measured now beside what was measured before."""

from __future__ import annotations

import os

from explorer.costs.times.library import Library, merged
from explorer.costs.times.library_json import load_library, write_library
from explorer.files import write_file
from solvers.errors import InvalidProblem


def earlier_times(path: str | None) -> Library | None:
    """What is in the file already; None if there is none. Before anything is measured: raises InvalidProblem for a file
    that is something else, which should not be written over."""
    if path is None or not os.path.isfile(path):
        return None
    return load_library(path)


def save_times(path: str, library: Library, before: Library | None) -> Library:
    """Writes both together, and returns them. Raises InvalidProblem where they cannot be compared."""
    if before is not None:
        try:
            library = merged(before, library)
        except InvalidProblem as error:
            raise InvalidProblem(f"{path}: {error}") from None
    write_file(path, write_library(library), "saving the operator times")
    return library
