"""The token that opens a server to others: read from where no other user sees it, kept as hashes, never shown."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from solvers.errors import InvalidProblem

VARIABLE = "PLACEMENT_EXPLORER_TOKEN"
"""Holds the token where no file does. The command takes it out of its environment: workers do not inherit it."""
LEAST = 24
"""Characters of a token: 24 of base64 are 144 random bits."""
LEAST_DISTINCT = 8
"""Different ones: a row of one character is no token."""
MOST = 512
KEPT_S = 7 * 24 * 3600
"""How long a browser stays signed in."""
MAKE = "umask 077; python3 -c 'import secrets; print(secrets.token_urlsafe(32))' > token"


class Secret:
    """What a token is recognised by, without the token. Raises InvalidProblem for one that is too easily guessed.

    A browser that has shown it gets a pass: who it is and until when, signed with a key made from the token. Passes
    outlive the server's process, and none outlives the token.
    """

    def __init__(self, token: str) -> None:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidProblem(
                "the token holds characters that a token cannot have: letters, digits and - _ . are safe"
            )
        if not LEAST <= len(token) <= MOST or len(set(token)) < LEAST_DISTINCT:
            raise InvalidProblem(
                f"the token must have {LEAST} to {MOST} characters, {LEAST_DISTINCT} of them different; make one:"
                f" {MAKE}"
            )
        self._hash = hashlib.sha256(token.encode()).digest()
        self._key = hashlib.scrypt(token.encode(), salt=b"placement-explorer pass", n=2**14, r=8, p=1, dklen=32)

    def is_token(self, given: str) -> bool:
        """In a time that does not depend on how much of it is right."""
        return hmac.compare_digest(hashlib.sha256(given.encode("utf-8", "replace")).digest(), self._hash)

    def new_pass(self, now: float) -> str:
        """For a visitor that did not visit before. now: seconds since 1970, as all times here."""
        what = f"{secrets.token_urlsafe(12)}.{int(now + KEPT_S)}"
        return f"{what}.{self._sign(what)}"

    def visitor(self, given: str, now: float) -> str | None:
        """Whose pass it is, None if it is none or no longer holds."""
        what, _, sign = given.rpartition(".")
        if not hmac.compare_digest(sign.encode("utf-8", "replace"), self._sign(what).encode()):
            return None
        name, _, until = what.partition(".")
        return name if now < int(until) else None

    def _sign(self, what: str) -> str:
        return hmac.new(self._key, what.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def read_secret(file: str, environ: Mapping[str, str]) -> Secret:
    """The token of a file, or of VARIABLE where ``file`` is "". Raises InvalidProblem, which never shows what was
    read."""
    stated = environ.get(VARIABLE, "").strip()
    if file and stated:
        raise InvalidProblem(f"there are two tokens: give --token-file or ${VARIABLE}, not both")
    if not file and not stated:
        raise InvalidProblem(
            f"--allow-remote needs a token: --token-file FILE or ${VARIABLE}; to make one: {MAKE} (docs/serving.md)"
        )
    return Secret(_of_file(Path(file)) if file else stated)


def _of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(MOST + 3) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise InvalidProblem(f"--token-file {path}: {(error.strerror or str(error)).lower()}") from None
    if not stat.S_ISREG(status.st_mode):
        raise InvalidProblem(f"--token-file {path}: not a regular file")
    # a file of another owner, such as a secret that a container is given, has the mode that its owner chose
    shared = 0o022 if status.st_uid != os.getuid() else 0o077
    if status.st_mode & shared:
        access = "change" if shared == 0o022 else "read"
        raise InvalidProblem(f"--token-file {path}: others may {access} it; chmod 600 {path}")
    return data.decode("utf-8", "replace").strip()
