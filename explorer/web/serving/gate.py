"""Who is let in on a server that others reach: whoever has shown its token."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from html import escape
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from explorer.web.serving.secret import KEPT_S, Secret
from explorer.web.serving.security import hostname

FREE = 3
"""Wrong tokens in a row that cost nothing: one mistypes."""
LONGEST_S = 60.0
FORGOTTEN_S = 900.0
REMEMBERED = 4096
"""Addresses at most; the oldest is forgotten first."""
VISITOR = "placement.visitor"
"""The key of a request's scope with its visitor: a word that reveals nothing about them."""
LOGIN = "/login"
FIELD = "token"
COOKIE = "placement-explorer"
MOST_BODY = 4096
"""Bytes of a form with a token."""
BODY_S = 10.0
POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
NO_TOKEN = "this server wants its token: open its page in a browser, or send the header Authorization: Bearer TOKEN"
WRONG = "That is not this server's token."

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">{again}
<title>Placement Explorer: sign in</title>
<style>
:root {{ color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }}
body {{ margin: 18vh auto 0; max-width: 22rem; padding: 0 1rem; }}
h1 {{ font-size: 1.2rem; }}
input, button {{ font: inherit; padding: .45rem .6rem; }}
input {{ box-sizing: border-box; width: 100%; margin: .3rem 0 .8rem; }}
</style>
</head>
<body>
<main>
<h1>Placement Explorer</h1>
<p role="alert">{message}</p>
<form method="post" action="{action}">
<label for="token">Token, as given by the owner of this server gave it to you</label>
<input id="token" name="token" type="password" required autofocus autocomplete="current-password" maxlength="512">
<button>Sign in</button>
</form>
</main>
</body>
</html>
"""
AGAIN = '\n<meta http-equiv="refresh" content="0">'
"""A link on another site brings no SameSite=Strict cookie along; the page itself, loading again, does."""


class Guesses:
    """By address, an IPv6 network of 64 bits counting as one. clock: seconds that only grow."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, tuple[int, float, float]] = OrderedDict()
        """How many in a row, until when nothing more is looked at, when the last one was."""

    def wait_s(self, address: str) -> float:
        """How long nothing that comes from there is looked at; 0 for no time."""
        _, until, _ = self._wrong.get(_network(address), (0, 0.0, 0.0))
        return max(0.0, until - self._clock())

    def wrong(self, address: str) -> None:
        now, network = self._clock(), _network(address)
        count, _, last = self._wrong.pop(network, (0, 0.0, now))
        count = 1 if now - last > FORGOTTEN_S else count + 1
        pause = min(LONGEST_S, 2.0 ** (count - FREE)) if count > FREE else 0.0
        self._wrong[network] = count, now + pause, now
        while len(self._wrong) > REMEMBERED:
            self._wrong.popitem(last=False)

    def right(self, address: str) -> None:
        self._wrong.pop(_network(address), None)


def _network(address: str) -> str:
    try:
        network = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(network, ipaddress.IPv4Address):
        return address
    return str(ipaddress.ip_network((network, 64), strict=False))


class Gate:
    """ASGI middleware behind `security.Guard`. The token comes in the form of the login page, in a link
    (``/?token=``), both answered by a cookie and the page's plain address, or in a header; every other request is
    answered with 401, a websocket's handshake too. https_hosts: names under which only https is spoken. clock: seconds
    since 1970.
    """

    def __init__(
        self,
        app: ASGIApp,
        secret: Secret,
        https_hosts: Iterable[str] = (),
        guesses: Guesses | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.app, self.secret, self.clock = app, secret, clock
        self.https_hosts = frozenset(https_hosts)
        self.guesses = Guesses() if guesses is None else guesses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        secure = scope["scheme"] in ("https", "wss") or hostname(headers.get("host")) in self.https_hosts
        visitor = self._pass(headers, _cookie_name(secure))
        if scope["type"] == "http":
            request, query = await self._shown(scope, receive)
            if request is not None:
                await self._sign_in(scope, request, query, secure, visitor)(scope, receive, send)
                return
        bearer = _bearer(headers)
        if visitor is None and bearer is not None:
            address = _address(scope)
            if pause_s := self.guesses.wait_s(address):
                await self._refuse(scope, receive, send, _too_many(pause_s))
                return
            if self.secret.is_token(bearer):
                self.guesses.right(address)
                visitor = f"address {address}"
            else:
                self.guesses.wrong(address)
        if visitor is None:
            await self._refuse(scope, receive, send, self._stranger(scope, headers))
            return

        async def private(message: Message) -> None:
            if message["type"] == "http.response.start":
                _keep_private(message)
            await send(message)

        await self.app({**scope, VISITOR: visitor}, receive, private)

    def _pass(self, headers: Headers, name: str) -> str | None:
        for pair in headers.get("cookie", "").split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name and (visitor := self.secret.visitor(value, self.clock())):
                return f"pass {visitor}"
        return None

    async def _shown(self, scope: Scope, receive: Receive) -> tuple[str | None, list[tuple[str, str]]]:
        """The token that a form or a link brings, None if there is none of either, and the rest of the query."""
        pairs = _pairs(scope["query_string"])
        rest = [pair for pair in pairs if pair[0] != FIELD]
        if scope["path"] == LOGIN and scope["method"] == "POST":
            body = b""
            try:
                async with asyncio.timeout(BODY_S):
                    async for chunk in Request(scope, receive).stream():
                        body += chunk
                        if len(body) > MOST_BODY:
                            return "", rest
            except (ClientDisconnect, TimeoutError):
                return "", rest
            return dict(_pairs(body)).get(FIELD, ""), rest
        if scope["path"] == "/" and scope["method"] == "GET" and len(rest) < len(pairs):
            return dict(pairs)[FIELD], rest
        return None, rest

    def _sign_in(
        self, scope: Scope, given: str, query: list[tuple[str, str]], secure: bool, visitor: str | None
    ) -> Response:
        address = _address(scope)
        if visitor is None or scope["path"] == LOGIN:
            if pause_s := self.guesses.wait_s(address):
                return _too_many(pause_s, query)
            if not self.secret.is_token(given.strip()):
                self.guesses.wrong(address)
                return _login_page(WRONG, query)
            self.guesses.right(address)
        answer = RedirectResponse("/" + ("?" + urlencode(query) if query else ""), 303)
        answer.headers["cache-control"] = "no-store"
        if visitor is None:
            answer.set_cookie(
                _cookie_name(secure),
                self.secret.new_pass(self.clock()),
                max_age=KEPT_S,
                secure=secure,
                httponly=True,
                samesite="strict",
            )
        return answer

    @staticmethod
    def _stranger(scope: Scope, headers: Headers) -> Response:
        if scope["type"] == "http" and scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            query = _pairs(scope["query_string"]) if scope["path"] == "/" else []
            return _login_page("", query, again=headers.get("sec-fetch-site") == "cross-site")
        return PlainTextResponse(NO_TOKEN, 401, {"www-authenticate": "Bearer", "cache-control": "no-store"})

    @staticmethod
    async def _refuse(scope: Scope, receive: Receive, send: Send, answer: Response) -> None:
        if scope["type"] == "http":
            await answer(scope, receive, send)
            return
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 4001, "reason": "the token is wrong or missing"})
            return
        headers = [pair for pair in answer.raw_headers if pair[0] != b"content-length"]
        await send({"type": "websocket.http.response.start", "status": answer.status_code, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": bytes(answer.body)})


def _pairs(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text[: 4 * MOST_BODY].decode("latin-1"), keep_blank_values=True, max_num_fields=64)
    except ValueError:
        return []


def _bearer(headers: Headers) -> str | None:
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def _cookie_name(secure: bool) -> str:
    """One that begins with "__Host-" can be set by this very host over https only."""
    return f"__Host-{COOKIE}" if secure else COOKIE


def _login_page(message: str, query: list[tuple[str, str]], status: int = 401, again: bool = False) -> Response:
    action = LOGIN + ("?" + urlencode(query) if query else "")
    text = PAGE.format(message=escape(message), action=escape(action), again=AGAIN if again else "")
    headers = {"www-authenticate": "Bearer", "cache-control": "no-store", "content-security-policy": POLICY}
    return HTMLResponse(text, status, headers)


def _too_many(pause_s: float, query: list[tuple[str, str]] | None = None) -> Response:
    wait = math.ceil(pause_s)
    words = f"Too many wrong tokens came from your address; try again in {wait} s."
    answer = PlainTextResponse(words, 429) if query is None else _login_page(words, query, 429)
    answer.headers["retry-after"] = str(wait)
    return answer


def _keep_private(message: Message) -> None:
    """Nothing that was for a visitor is kept by a cache that others share."""
    headers = [pair for pair in message.get("headers", []) if pair[0].lower() != b"cache-control"]
    stated = b", ".join(value for name, value in message.get("headers", []) if name.lower() == b"cache-control")
    control = stated.replace(b"public", b"private") if stated else b"private, no-cache"
    message["headers"] = [*headers, (b"cache-control", control)]
