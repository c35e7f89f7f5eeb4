"""Where compiled kernels are kept between runs. Standard library only: it runs before numba is imported.

numba keeps a compiled kernel, with all that it calls inside it, until the file of the kernel itself changes; that a
kernel it calls has changed, or moved to another file, it does not notice. So what every kernel was made of is written
down where kernels are kept, and those that are made of something else by now are deleted.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

IMPORTED = re.compile(rb"^from ([\w.]+) import", re.MULTILINE)
RECORD = "kernels-of-placement-explorer.json"


def drop_stale(package: Path, elsewhere: Sequence[Path]) -> None:
    """Delete compiled kernels of ``package`` that are made of older code: those beside their source, and those in
    folders ``elsewhere`` that numba keeps kernels of many packages in."""
    paths, made_of = _made_of(package.absolute())
    mark = hashlib.sha256(str(package.absolute()).encode()).hexdigest()[:16]
    for folder, record in [(None, package / "__pycache__" / RECORD), *((f, f / f"{mark}-{RECORD}") for f in elsewhere)]:
        if not record.parent.is_dir() or not os.access(record.parent, os.W_OK):
            continue
        known = _read(record)
        stale = [name for name, hashed in made_of.items() if known.get(name) != hashed]
        if not stale:
            continue
        with suppress(OSError):  # another process may be at it too
            for name in stale:
                for compiled in _cache_folder(paths[name].parent, folder).glob(f"{paths[name].stem}.*.nb[ic]"):
                    compiled.unlink(missing_ok=True)
            beside = record.with_suffix(f".{os.getpid()}")
            beside.write_text(json.dumps(made_of))
            beside.replace(record)


def _cache_folder(source: Path, folder: Path | None) -> Path:
    """Where numba keeps what it compiled of the files in ``source``."""
    if folder is None:
        return source / "__pycache__"
    return folder / f"{source.name}_{hashlib.sha1(str(source).encode(), usedforsecurity=False).hexdigest()}"


def _read(record: Path) -> dict[str, str]:
    try:
        content = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _made_of(package: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Per module with kernels its file, and a hash of that and of those with kernels that it imports from, directly or
    not."""
    paths = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts): path
        for path in sorted(package.rglob("*_kernel.py"))
    }
    texts = {name: path.read_bytes() for name, path in paths.items()}
    imports = {
        name: [m for m in map(bytes.decode, IMPORTED.findall(text)) if m in texts] for name, text in texts.items()
    }
    hashes = {name: hashlib.sha256(text).digest() for name, text in texts.items()}
    return paths, {
        name: hashlib.sha256(b"".join(hashes[other] for other in sorted(_reached(name, imports)))).hexdigest()
        for name in texts
    }


def _reached(name: str, imports: dict[str, list[str]]) -> set[str]:
    reached, todo = {name}, [name]
    while todo:
        new = set(imports[todo.pop()]) - reached
        reached |= new
        todo += new
    return reached


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
