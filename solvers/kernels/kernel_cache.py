"""Where compiled kernels are kept between runs. Standard library only: it runs before numba is imported."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from solvers.kernels.stale import drop_stale

VARIABLE = "NUMBA_CACHE_DIR"


def settle(package: Path) -> None:
    """Give numba a folder for this process and its children if it would find none: it raises then.

    numba keeps kernels in $NUMBA_CACHE_DIR if set, else beside the source in ``package``, else in the user's
    cache folder. Where none can be written, a folder that is deleted at the end, and one warning.
    """
    chosen = os.environ.get(VARIABLE)
    elsewhere = [_users(), *([Path(chosen)] if chosen else [])]
    if any(_writable(folder) for folder in (package / "__pycache__", *elsewhere)):
        used = Path(chosen) if chosen else package / "__pycache__" if _writable(package / "__pycache__") else _users()
        with suppress(OSError):  # made now, so that what is compiled today is known tomorrow
            used.mkdir(parents=True, exist_ok=True)
        drop_stale(package, elsewhere)
        return
    folder = tempfile.mkdtemp(prefix="placement-explorer-kernels-")
    atexit.register(_remove, folder, os.getpid())
    os.environ[VARIABLE] = folder
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = folder
    warnings.warn(
        f"compiled kernels cannot be kept: neither {package} nor {_users()} can be written, so every start"
        f" compiles them again; set {VARIABLE} to a folder that can",
        RuntimeWarning,
        stacklevel=3,
    )


def _users() -> Path:
    """The user's cache folder, as numba finds it."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "numba" / "Cache"
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Caches/numba"))
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "numba"


def _writable(folder: Path) -> bool:
    """Whether files can be made in the folder, or in the nearest one above it that exists."""
    parents: Sequence[Path] = (folder, *folder.parents)
    for parent in parents:
        try:
            if parent.exists():
                return parent.is_dir() and os.access(parent, os.W_OK | os.X_OK)
        except OSError:
            return False
    return False


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
