"""Files that people handed in, kept for as long as the server lives: by content, and only so many."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

MAX_FILES = 24
MAX_ALL_BYTES = 1024 * 2**20
PREFIX = "file-"
"""Before the hash of a file in the name by which pages know it."""
_NAME = re.compile(r"[^A-Za-z0-9._+ -]")


@dataclass(frozen=True, slots=True)
class Kept:
    """identifier: "file-" and the begin of the content's SHA-256. name: what its owner calls it, made safe to show and
    to write. path: where it is."""

    identifier: str
    name: str
    path: str
    nbytes: int


class Shelf:
    """Shared by all pages. What was not used for longest goes first."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="placement-explorer-"))
        self._kept: OrderedDict[str, Kept] = OrderedDict()
        self._lock = threading.RLock()
        self.close = weakref.finalize(self, shutil.rmtree, str(self.folder), ignore_errors=True)

    def part(self) -> Path:
        """A new empty file to write what arrives into."""
        handle, path = tempfile.mkstemp(dir=self.folder, suffix=".part")
        os.close(handle)
        return Path(path)

    def keep(self, part: Path, name: str) -> Kept:
        """Take a file that has arrived whole."""
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:24]
        shown, nbytes = safe_name(name), part.stat().st_size
        place = self.folder / digest
        place.mkdir(exist_ok=True)
        target = place / shown
        os.replace(part, target)
        with self._lock:
            found = self._kept[PREFIX + digest] = Kept(PREFIX + digest, shown, str(target), nbytes)
            self._kept.move_to_end(found.identifier)
            while len(self._kept) > MAX_FILES or sum(kept.nbytes for kept in self._kept.values()) > MAX_ALL_BYTES:
                _, old = self._kept.popitem(last=False)
                shutil.rmtree(Path(old.path).parent, ignore_errors=True)
        return found

    def get(self, identifier: str) -> Kept | None:
        with self._lock:
            found = self._kept.get(identifier)
            if found is not None:
                self._kept.move_to_end(identifier)
            return found

    def names(self) -> tuple[str, ...]:
        """Of all files that are here."""
        with self._lock:
            return tuple(self._kept)


def safe_name(name: str) -> str:
    """The last part of a path, of at most 80 plain characters: no markup, no separators, nothing that hides."""
    last = re.split(r"[/\\]", name)[-1]
    found = _NAME.sub("_", last).strip(" .")[-80:]
    return found or "file"
