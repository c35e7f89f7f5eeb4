"""Files that pages asked for, to be fetched once they are written: few, in memory, by names nobody can guess."""

from __future__ import annotations

import secrets
import threading
from collections import Counter, OrderedDict
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
    """Shared by all pages. Of the owner who has most, the oldest go first."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, tuple[str, Taken]] = OrderedDict()
        self._lock = threading.RLock()

    def put(self, taken: Taken, owner: str = "") -> str:
        """Where on the server it can be fetched from now on."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._files[token] = owner, taken
            while len(self._files) > 1 and self._too_much():
                del self._files[self._next_to_go(token)]
        return PATH + token

    def get(self, token: str) -> Taken | None:
        with self._lock:
            stored = self._files.get(token)
            return None if stored is None else stored[1]

    def _too_much(self) -> bool:
        return len(self._files) > MAX_FILES or sum(len(taken.data) for _, taken in self._files.values()) > MAX_ALL_BYTES

    def _next_to_go(self, newest: str) -> str:
        """Not the newest, however large: somebody waits for it."""
        shares: Counter[str] = Counter()
        for token, (owner, taken) in self._files.items():
            if token != newest:
                shares[owner] += MAX_ALL_BYTES // MAX_FILES + len(taken.data)
        most = shares.most_common(1)[0][0]
        return next(token for token, (owner, _) in self._files.items() if owner == most and token != newest)
