"""What a page has yet to be sent: while it takes none of it, nothing more is made for it."""

from __future__ import annotations

import asyncio

from explorer.web.contract.messages import Outgoing

MOST_UNSENT = 64
"""Messages that may wait to be sent before the page's next message, or event of its jobs, is dealt with."""


class Outbox:
    """Messages to a page, in order. What is dealt with for a page may send it many; whoever deals with things waits for
    room before the next."""

    def __init__(self) -> None:
        self._messages: asyncio.Queue[Outgoing] = asyncio.Queue()
        self._room = asyncio.Event()
        self._room.set()

    def put(self, message: Outgoing) -> None:
        self._messages.put_nowait(message)
        if self._messages.qsize() >= MOST_UNSENT:
            self._room.clear()

    async def get(self) -> Outgoing:
        """The next message, once there is one."""
        message = await self._messages.get()
        if self._messages.qsize() < MOST_UNSENT:
            self._room.set()
        return message

    async def room(self) -> None:
        """Wait until fewer than MOST_UNSENT wait."""
        await self._room.wait()
