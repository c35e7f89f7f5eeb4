"""Addresses under which others reach the server: what a proxy, or the network, calls it."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from solvers.errors import InvalidProblem

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""This machine's own addresses: nobody else reaches what listens there."""
ANY = ("0.0.0.0", "::")
"""All addresses of this machine at once: none of them is a name that a browser asks for."""


def parse_origin(text: str) -> str:
    """An origin as browsers write it, "https://lab.example" or "http://lab7:8050". Raises InvalidProblem."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _refused(text) from None
    name = (parts.hostname or "").lower()
    origin_only = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
    if parts.scheme not in ("http", "https") or not name or not origin_only or not name.isascii() or "%" in name:
        raise _refused(text)
    shown = f"[{name}]" if ":" in name else name
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{shown}" + (f":{port}" if port not in (None, usual) else "")


def names_of(origins: Iterable[str]) -> frozenset[str]:
    """The host names of origins, as `security.hostname` writes them."""
    return frozenset(
        f"[{parts.hostname}]" if ":" in (parts.hostname or "") else str(parts.hostname)
        for parts in map(urlsplit, origins)
    )


def _refused(text: str) -> InvalidProblem:
    return InvalidProblem(
        f"--public-origin {text}: expected what a browser's address begins with, as https://lab.example or"
        " http://lab7:8050"
    )
