"""Files that pages asked for, to be fetched once they are written: few, in memory, by names nobody can guess."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

MAX_FILES = 16
MAX_ALL_BYTES = 512 * 2**20
PATH = "/take/"


@dataclass(frozen=True, slots=True)
class Taken:
    """name: of a file, made of plain characters. media_type: what it is."""

    name: str
    media_type: str
    data: bytes


class Outlet:
    """Shared by all pages. The oldest go first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Taken] = OrderedDict()
        self._lock = threading.RLock()

    def put(self, taken: Taken) -> str:
        """Where on the server it can be fetched from now on."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._kept[token] = taken
            while len(self._kept) > MAX_FILES or self._too_much():
                self._kept.popitem(last=False)
        return PATH + token

    def get(self, token: str) -> Taken | None:
        with self._lock:
            return self._kept.get(token)

    def _too_much(self) -> bool:
        """The newest stays, however large: somebody waits for it."""
        return len(self._kept) > 1 and sum(len(taken.data) for taken in self._kept.values()) > MAX_ALL_BYTES
