"""Asking a server that nobody here controls: plain HTTP with limits on time and size, and no way for a token to leak.

Nothing but the standard library. Redirects are never followed, proxies of the environment never used, and what
comes back is text of a stranger: cut to size, free of control characters and of the token before anybody sees it.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from explorer.runner.bundles.words import one_line
from explorer.runner.targets.target_file import RaySetup, unsafe
from solvers.errors import RunError

LOOK_S = 0.1
"""How often somebody who waits for an answer asks whether to go on."""
_CHUNK = 2**16


class Unreachable(RunError):
    """No answer, a broken one, or a server that says it cannot at the moment: may pass."""


class Refused(RunError):
    """An answer, and it is no: asking again is of no use."""


class Stopped(RunError):
    """Whoever asked lost interest before the answer came."""


@dataclass(frozen=True, slots=True)
class Reply:
    """status: of HTTP. body: decoded, the token blotted out."""

    status: int
    body: str


@dataclass(frozen=True, slots=True)
class Server:
    """Where to ask. address: scheme, host, port and maybe a path; token: sent with every request, never shown."""

    address: str
    token: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float = 5.0,
        most_bytes: int = 2**20,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Reply:
        """The reply to one request, whatever its status but a redirect.

        timeout_s: for all of it, from the connection to the last byte. Raises Unreachable, Refused (a redirect,
        a certificate that is not trusted, a reply of more than ``most_bytes``) or Stopped.
        """
        headers = {"Accept": "application/json", "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = content_type
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        exchange = _Exchange(self, method, path, body, headers, timeout_s, most_bytes)
        exchange.start()
        deadline = time.monotonic() + timeout_s
        while not exchange.ended.wait(LOOK_S):
            if should_stop():
                exchange.abandon()
                raise Stopped(f"{self.address}: not waited for")
            if time.monotonic() > deadline:
                exchange.abandon()
                raise Unreachable(f"{self.address}: no answer within {timeout_s:g} s")
        exchange.join()
        if exchange.error is not None:
            raise self._explained(exchange.error, timeout_s)
        if exchange.size > most_bytes:
            raise Refused(f"{self.address}: replied with more than {most_bytes:,} bytes to {method} {path}")
        if 300 <= exchange.status < 400:
            raise Refused(
                f"{self.address}: sends to another address (HTTP {exchange.status}), which is not followed: a token"
                " must not leave it; give the final address"
            )
        return Reply(exchange.status, self.blotted(bytes(exchange.body).decode("utf-8", "replace")))

    def blotted(self, text: str) -> str:
        """``text`` without the token."""
        return text.replace(self.token, "<token>") if self.token else text

    def _explained(self, error: Exception, timeout_s: float) -> RunError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return Refused(
                f"{self.address}: its certificate is not trusted ({one_line(error.verify_message)}); give the file of"
                " the authority that signed it (ca_file)"
            )
        if isinstance(error, ssl.SSLError):
            return Unreachable(f"{self.address}: TLS failed ({one_line(error.reason or str(error))})")
        if isinstance(error, TimeoutError):
            return Unreachable(f"{self.address}: no answer within {timeout_s:g} s")
        if isinstance(error, socket.gaierror):
            return Unreachable(f"{self.address}: no such host")
        if isinstance(error, OSError):
            return Unreachable(f"{self.address}: {one_line(error.strerror or str(error)).lower()}")
        return Unreachable(f"{self.address}: what answers there does not speak HTTP properly ({type(error).__name__})")


def server_at(
    where: str,
    address: str,
    token: str = "",
    *,
    ca_file: str = "",
    verify_tls: bool = True,
    allow_plain_http: bool = False,
) -> Server:
    """A server that it is safe to send the token and the work to. where: who says so, for messages.

    Raises RunError: an address that is none, that holds a password, that is of another machine and not guarded
    by a token, or to which the token would go unencrypted; a CA file that cannot be read.
    """
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise RunError(f"{where}: its token holds characters that a token cannot have")
    if why := unsafe(address, has_token=bool(token), allow_plain_http=allow_plain_http):
        raise RunError(f"{where}: {why}")
    context = _tls(where, ca_file, verify_tls) if address.startswith("https:") else None
    return Server(address.rstrip("/"), token, context)


def server_of(setup: RaySetup, token: str) -> Server:
    """`server_at` the address of a cluster. Raises RunError."""
    return server_at(
        f"target {setup.name}",
        setup.address,
        token,
        ca_file=setup.ca_file,
        verify_tls=setup.verify_tls,
        allow_plain_http=setup.allow_plain_http,
    )


def _tls(where: str, ca_file: str, verify_tls: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise RunError(f"{where}: {ca_file}: no certificates can be read there ({error.strerror or error})") from None
    if not verify_tls:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class _Exchange(threading.Thread):
    """One request and its reply, in a thread of its own, so that its caller can stop waiting at any moment."""

    def __init__(
        self,
        server: Server,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        timeout_s: float,
        most_bytes: int,
    ) -> None:
        super().__init__(name="request", daemon=True)
        parts = urlsplit(server.address)
        host = parts.hostname or ""
        self._connection = (
            http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=server.tls)
            if parts.scheme == "https"
            else http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
        )
        self._request = (method, parts.path.rstrip("/") + path, body, headers)
        self._most = most_bytes
        self._socket: socket.socket | None = None
        self.ended = threading.Event()
        self.status = 0
        self.body = bytearray()
        self.size = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._connection.connect()
            self._socket = self._connection.sock  # which the reply takes over
            self._connection.request(*self._request)
            with self._connection.getresponse() as response:
                self.status = response.status
                while self.size <= self._most and (chunk := response.read(_CHUNK)):
                    self.body += chunk
                    self.size += len(chunk)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.error = error
        finally:
            self._connection.close()
            self.ended.set()

    def abandon(self) -> None:
        """End it: a blocked read or write fails at once; a blocked connect ends by its own timeout."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self.join(1.0)
