"""The page's websocket: one conversation a connection.

Own rather than Dash's websocket callbacks: a newer question replaces the one being solved, a lost
connection shows, and a message costs one hop (about 2 ms) instead of a worker script and a queue.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fastapi import FastAPI, WebSocket, WebSocketDisconnect

from explorer.jobs.requests import UPLOAD_BYTES
from explorer.view.events import Event
from explorer.view.lessons.lesson import Lesson
from explorer.view.session import Choices
from explorer.web.contract.backend import Backend
from explorer.web.handlers.jobs import on_event
from explorer.web.handlers.opening import take
from explorer.web.handlers.table import open_page, receive
from explorer.web.serving.files import Door, add_download_route, add_upload_route
from explorer.web.serving.gate import VISITOR
from explorer.web.serving.queues import SLOW_S, Inbox, Outbox
from explorer.web.serving.quotas import UNLIMITED, Quotas, Visitors
from explorer.web.serving.security import Names
from explorer.web.state.page_state import PageState
from explorer.web.state.server import Server
from explorer.web.state.shelf import Shelf
from solvers.errors import printable

PATH = "/live"
MAX_MESSAGE = 16_384
MAX_PAGES = 64
"""Of all visitors."""
GONE = (WebSocketDisconnect, RuntimeError)
"""What a websocket raises whose page is gone, or that the other of its two tasks has closed."""

LOCAL = Names()

log = logging.getLogger(__name__)


def encode(message: Mapping[str, object]) -> str:
    """JSON, with Dash components as Dash sends them. Raises ValueError on inf and NaN."""
    return json.dumps(message, default=lambda value: value.to_plotly_json(), allow_nan=False, separators=(",", ":"))


def add_live_route(
    server: FastAPI,
    backend: Backend,
    choices: Choices,
    lessons: Sequence[Lesson] = (),
    names: Names = LOCAL,
    quotas: Quotas = UNLIMITED,
    slow_s: float = SLOW_S,
) -> None:
    """Serve conversations at PATH. Host and origin were checked by `security.Guard`, the token by `gate.Gate`. quotas:
    of each visitor; without tokens everybody is the same one. slow_s: see
    `uploads.add_upload_route`."""
    visitors = Visitors(quotas)
    shelf = Shelf()
    shared = Server(backend, choices, lessons, shelf)
    doors: dict[str, Door] = {}
    add_upload_route(server, doors, shelf, names, slow_s)
    add_download_route(server, shared.outlet)
    pages = 0

    async def live(socket: WebSocket) -> None:
        nonlocal pages
        await socket.accept()
        visitor = visitors.get(str(socket.scope.get(VISITOR, "")))
        most = min(MAX_PAGES, quotas.pages)
        if pages >= MAX_PAGES or visitor.pages >= most:
            await socket.close(1013, f"at most {most:g} pages at once")
            return
        pages += 1
        visitor.pages += 1
        loop = asyncio.get_running_loop()
        inbox = Inbox()
        outbox = Outbox()

        def deliver(turn: int, event: Event) -> None:
            loop.call_soon_threadsafe(inbox.put_event, turn, event, lambda turn, event: on_event(page, turn, event))

        name = visitor.name or secrets.token_urlsafe(12)  # a page is a visitor where nobody has a name
        page = PageState(shared, outbox.put, deliver, name, visitor.may_ask)
        close = open_page(page)
        token = secrets.token_urlsafe(24)
        doors[token] = Door(lambda file: inbox.put(lambda: take(page, file)), visitor)
        outbox.put({"type": "hello", "token": token, "most_bytes": UPLOAD_BYTES})
        acts, sends = asyncio.create_task(_act(inbox, outbox)), asyncio.create_task(_send(socket, outbox))
        receives = asyncio.create_task(_receive(socket, inbox, lambda message: receive(page, message)))
        try:
            await asyncio.wait((receives, sends), return_when=asyncio.FIRST_COMPLETED)
        finally:
            pages -= 1
            visitor.pages -= 1
            del doors[token]
            close()
            for task in (acts, sends, receives):
                task.cancel()
            for ended in await asyncio.gather(acts, sends, receives, return_exceptions=True):
                if isinstance(ended, Exception):
                    log.error("a page's conversation ended", exc_info=ended)

    server.add_api_websocket_route(PATH, live)


def decoded(raw: str) -> dict[str, object] | None:
    """The message that a page sent, all texts in it printable; None if it is none."""
    if len(raw) > MAX_MESSAGE:
        return None
    try:
        message = _shown(json.loads(raw))
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _shown(value: object) -> object:
    """A value whose texts may be said back."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list) else value


async def _receive(socket: WebSocket, inbox: Inbox, receive: Callable[[dict[str, object]], None]) -> None:
    """Until the page is gone, or sends what is no message."""
    try:
        while True:
            message = decoded(await socket.receive_text())
            if message is None:
                await socket.close(1009, "a message must be a small JSON object")
                return
            await inbox.receive(partial(receive, message))
    except GONE:
        return
    except KeyError:  # a binary frame has no text
        await socket.close(1003, "a message must be text")


async def _act(inbox: Inbox, outbox: Outbox) -> None:
    """Deal with one thing after another, as fast as the page takes the answers, and with other pages between."""
    while True:
        await outbox.room()
        act = await inbox.get()
        try:
            act()
        except Exception:
            log.exception("a page's message or event could not be handled")
        await asyncio.sleep(0)


async def _send(socket: WebSocket, outbox: Outbox) -> None:
    """Until the page is gone. What cannot be sent ends the conversation."""
    while True:
        text = encode(await outbox.get())
        try:
            await socket.send_text(text)
        except GONE:
            return
