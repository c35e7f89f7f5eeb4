"""Where the library is, and what is said when it cannot help."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from solvers.errors import PlacementError

VARIABLE = "PLACEMENT_EXPLORER_LIBRARY"
OFF = "off"
NAME = "plans.sqlite"


def library_path(environ: Mapping[str, str] = os.environ) -> Path | None:
    """$PLACEMENT_EXPLORER_LIBRARY, None if that is "off"; else plans.sqlite in $PLACEMENT_EXPLORER_HOME, or in
    placement-explorer in $XDG_DATA_HOME (~/.local/share); None without a home. It may not exist."""
    if given := environ.get(VARIABLE):
        return None if given == OFF else path_of(given)
    if home := environ.get("PLACEMENT_EXPLORER_HOME"):
        return path_of(home) / NAME
    base = environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    if base.startswith("~"):  # nobody's home is known
        return None
    return Path(base).absolute() / "placement-explorer" / NAME


def path_of(given: str) -> Path:
    """As a person writes it."""
    return Path(os.path.expanduser(given)).absolute()


def graphs_beside(library: Path | None) -> Path | None:
    """The folder of graphs that were traced for questions with a library: "plans.graphs" beside "plans.sqlite"; None
    without a library. It may not exist."""
    return None if library is None else library.with_suffix(".graphs")


class LibraryTrouble(PlacementError):
    """The library cannot be opened, read or written, or an answer in it is not what it should be. No answer is ever
    lost to it: the caller searches without the library, and prints this one line."""
