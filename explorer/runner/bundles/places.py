"""Where runs are kept on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """$PLACEMENT_EXPLORER_HOME, else placement-explorer in $XDG_STATE_HOME (~/.local/state). It may not exist."""
    if home := environ.get("PLACEMENT_EXPLORER_HOME"):
        return Path(home).expanduser().absolute()
    base = environ.get("XDG_STATE_HOME")
    return (Path(base).absolute() if base else Path.home() / ".local" / "state") / "placement-explorer"


def runs_folder(environ: Mapping[str, str] = os.environ) -> Path:
    return state_folder(environ) / "runs"
