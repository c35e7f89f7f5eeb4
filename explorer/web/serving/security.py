"""Who may talk to the page, and what the page may load: host check, origins, headers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explorer.web.serving.public import names_of

LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HOST = re.compile(r"^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?$")


def content_security_policy(script_hashes: Iterable[str]) -> str:
    """Only this server. Styles are set inline by plotly, cytoscape and Mantine, hence 'unsafe-inline'
    for styles alone; scripts are files, or the one line of Dash's renderer by its hash."""
    scripts = " ".join(["'self'", *script_hashes])
    return "; ".join(
        [
            "default-src 'self'",
            f"script-src {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self'",
            "connect-src 'self'",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def hostname(host: str | None) -> str | None:
    """The name in a Host header, None if it is not well formed."""
    match = _HOST.match(host or "")
    return match[1].lower() if match else None


def same_origin(origin: str | None, host: str | None) -> bool:
    """Whether a websocket's Origin is the page this server serves."""
    if not origin or not host:
        return False
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


@dataclass(frozen=True)
class Names:
    """What the server is called. hosts: names that it answers for. origins: where others reach it, as browsers write
    it; pages of a name that is among these come from exactly there, whatever port a proxy leaves in the Host header."""

    hosts: frozenset[str] = LOCAL_HOSTS
    origins: frozenset[str] = frozenset()

    def answers_for(self, host: str | None) -> bool:
        return hostname(host) in self.hosts | names_of(self.origins)

    def own(self, origin: str | None, host: str | None) -> bool:
        """Whether a request with these headers was made by a page of this server."""
        if origin is not None and origin.lower() in self.origins:
            return True
        return hostname(host) not in names_of(self.origins) and same_origin(origin, host)


class Guard:
    """ASGI middleware: refuses foreign Host headers (DNS rebinding), foreign websocket origins and websockets at any
    path but that of the page's conversation (Dash opens one of its own), and adds the security headers to every
    answer that has not said otherwise."""

    def __init__(self, app: ASGIApp, names: Names, policy: str, socket_path: str) -> None:
        self.app = app
        self.names = names
        self.socket_path = socket_path
        self.headers = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "permissions-policy": "camera=(), microphone=(), geolocation=()",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope)
        host = given.get("host")
        if not self.names.answers_for(host):
            await self._refuse(scope, receive, send, 421, "this server does not answer for that host name")
            return
        if scope["type"] == "websocket" and not self.names.own(given.get("origin"), host):
            await self._refuse(scope, receive, send, 403, "websockets are for the page's own origin")
            return
        if scope["type"] == "websocket" and scope["path"] != self.socket_path:
            await self._refuse(scope, receive, send, 403, "there is no websocket at that path")
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, with_headers)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, status: int, why: str) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 4003, "reason": why})
            return
        await PlainTextResponse(why, status)(scope, receive, send)
