"""Where the library is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "PLACEMENT_EXPLORER_LIBRARY"
OFF = "off"
NAME = "plans.sqlite"


def library_path(environ: Mapping[str, str] = os.environ) -> Path | None:
    """$PLACEMENT_EXPLORER_LIBRARY, None if that is "off"; else plans.sqlite in $PLACEMENT_EXPLORER_HOME, or in
    placement-explorer in $XDG_DATA_HOME (~/.local/share). It may not exist."""
    if given := environ.get(VARIABLE):
        return None if given == OFF else Path(given).expanduser().absolute()
    if home := environ.get("PLACEMENT_EXPLORER_HOME"):
        return Path(home).expanduser().absolute() / NAME
    base = environ.get("XDG_DATA_HOME")
    return (Path(base).absolute() if base else Path.home() / ".local" / "share") / "placement-explorer" / NAME
