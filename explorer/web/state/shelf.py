"""Files that people handed in, stored for as long as the server lives: by content, and only so many."""

from __future__ import annotations

import hashlib
import math
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
class StoredFile:
    """identifier: "file-" and the begin of the content's SHA-256. name: what its owner calls it, made safe to show and
    to write. path: where it is."""

    identifier: str
    name: str
    path: str
    nbytes: int


class Shelf:
    """Shared by all pages. Of the owner who has most, what was not used for longest goes first: nobody's files make
    room for those of somebody who has more."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="placement-explorer-"))
        self._files: OrderedDict[str, StoredFile] = OrderedDict()
        self._owners: dict[str, set[str]] = {}
        """Who handed in what, by identifier: the same file may have come from several."""
        self._lock = threading.RLock()
        self.close = weakref.finalize(self, shutil.rmtree, str(self.folder), ignore_errors=True)

    def part(self) -> Path:
        """A new empty file to write what arrives into."""
        handle, path = tempfile.mkstemp(dir=self.folder, suffix=".part")
        os.close(handle)
        return Path(path)

    def store(self, part: Path, name: str, owner: str = "", most_bytes: float = math.inf) -> StoredFile:
        """Take a file that has arrived whole. most_bytes: of all that the owner holds, this file included."""
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:24]
        shown, nbytes = safe_name(name), part.stat().st_size
        directory = self.folder / digest
        directory.mkdir(exist_ok=True)
        target = directory / shown
        os.replace(part, target)
        with self._lock:
            stored = self._files[PREFIX + digest] = StoredFile(PREFIX + digest, shown, str(target), nbytes)
            self._files.move_to_end(stored.identifier)
            self._owners.setdefault(stored.identifier, set()).add(owner)
            own = [each for each in self._files.values() if owner in self._owners[each.identifier]]
            while sum(file.nbytes for file in own) > most_bytes and len(own) > 1:
                self._give_up(own.pop(0), owner)
            while len(self._files) > MAX_FILES or sum(file.nbytes for file in self._files.values()) > MAX_ALL_BYTES:
                most = self._has_most()
                self._give_up(
                    next(file for file in self._files.values() if most in self._owners[file.identifier]), most
                )
        return stored

    def _has_most(self) -> str:
        """Of files or of bytes, whichever is the larger share of what all may have."""
        shares: dict[str, tuple[float, float]] = {}
        for identifier, owners in self._owners.items():
            for owner in owners:
                files, nbytes = shares.get(owner, (0.0, 0.0))
                shares[owner] = files + 1 / MAX_FILES, nbytes + self._files[identifier].nbytes / MAX_ALL_BYTES
        return max(shares, key=lambda owner: max(shares[owner]))

    def _give_up(self, file: StoredFile, owner: str) -> None:
        """One of its owners has no room for it any more."""
        self._owners[file.identifier].discard(owner)
        if not self._owners[file.identifier]:
            self._drop(file)

    def _drop(self, file: StoredFile) -> None:
        del self._files[file.identifier], self._owners[file.identifier]
        shutil.rmtree(Path(file.path).parent, ignore_errors=True)

    def get(self, identifier: str) -> StoredFile | None:
        with self._lock:
            stored = self._files.get(identifier)
            if stored is not None:
                self._files.move_to_end(identifier)
            return stored

    def names(self) -> tuple[str, ...]:
        """Of all files that are here."""
        with self._lock:
            return tuple(self._files)


def safe_name(name: str) -> str:
    """The last part of a path, of at most 80 plain characters: no markup, no separators, nothing that hides."""
    last = re.split(r"[/\\]", name)[-1]
    safe = _NAME.sub("_", last).strip(" .")[-80:]
    return safe or "file"
