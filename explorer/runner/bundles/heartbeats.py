"""What each rank is at, in a few bytes of the bundle that it overwrites as it goes: whoever started the run on the same
machine reads them to name a rank that stands still. No torch here."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from explorer.runner.bundles.words import one_line

_HEAD = struct.Struct("<qq?")
_SIZE = 64
_TEXT = _SIZE - _HEAD.size
PATTERN = "beat-*"

_file: mmap.mmap | None = None
_count = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """process: of the rank. count: grows with every step. waits: whether for other ranks. at: a step of the script
    ("1F0") or a phase ("tracing")."""

    process: int
    count: int
    waits: bool
    at: str


def begin(folder: Path, rank: int) -> None:
    """From here on this process writes what it is at; it does without where no file can be written."""
    global _file
    with suppress(OSError), open(folder / f"beat-{rank}", "w+b") as file:
        file.truncate(_SIZE)
        _file = mmap.mmap(file.fileno(), _SIZE)
        at("starting")


def at(what: Hashable, waits: bool = False) -> None:
    """This process is at ``what``, and waits for others or works."""
    global _count
    if _file is not None:
        _count += 1
        _file[:] = _HEAD.pack(os.getpid(), _count, waits) + _text(what)


def works() -> None:
    """It waits no longer."""
    if _file is not None:
        _file[_HEAD.size - 1] = False


@lru_cache(maxsize=4096)
def _text(what: Hashable) -> bytes:
    return str(what).encode()[:_TEXT].ljust(_TEXT)


def read(folder: Path, rank: int) -> Heartbeat | None:
    """What a rank is at; None before it begins."""
    try:
        data = (folder / f"beat-{rank}").read_bytes()
    except OSError:
        return None
    if len(data) != _SIZE or not any(data):
        return None
    process, count, waits = _HEAD.unpack_from(data)
    return Heartbeat(process, count, waits, one_line(data[_HEAD.size :].decode(errors="replace").strip()))


def clear(folder: Path) -> None:
    """Remove what the ranks left."""
    for path in folder.glob(PATTERN):
        with suppress(OSError):
            path.unlink()
