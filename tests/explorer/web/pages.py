"""An open page without sockets and threads: messages go in, and what it is sent is kept."""

from __future__ import annotations

from typing import Any

from explorer.view.events import Event
from explorer.view.session import Choices
from explorer.web.contract.backend import Backend
from explorer.web.contract.messages import Outgoing
from explorer.web.handlers.jobs import on_event
from explorer.web.handlers.table import open_page, receive
from explorer.web.state.page_state import PageState
from explorer.web.state.server import Server


class OpenPage:
    """Reads as its state does. sent: the messages so far; shared: see `Server`."""

    def __init__(self, backend: Backend, choices: Choices, **shared: Any) -> None:
        self.sent: list[Outgoing] = []
        self.state = PageState(Server(backend, choices, **shared), self.sent.append, self.on_event)
        self.close = open_page(self.state)

    def receive(self, message: dict[str, Any]) -> None:
        receive(self.state, message)

    def on_event(self, turn: int, event: Event) -> None:
        on_event(self.state, turn, event)

    @property
    def backend(self) -> Any:
        return self.state.server.backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self.state, name)
