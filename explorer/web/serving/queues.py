"""What a page has yet to deal with, and what it has yet to be sent, each in order. Of a search's steps only the latest
plan waits; and while a page takes nothing, nothing more is made for it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable

from explorer.view.events import Event, ProgressEvent
from explorer.web.contract.messages import Outgoing

MOST_WAITING = 32
"""Messages of a page that may wait: what it sends beyond them is left on its connection."""


class Inbox:
    """Messages of the page and events of its jobs. A search that improves faster than its plans are drawn must not put
    a cancel at the end of a queue: a progress that waits still is taken up by the one that follows it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Callable[[], None]] = asyncio.Queue()
        self._waiting: dict[int, ProgressEvent] = {}
        """The progress that waits, by turn."""
        self._room = asyncio.Semaphore(MOST_WAITING)

    async def receive(self, act: Callable[[], None]) -> None:
        """The same as `put` for a message of the page, once there is room for it."""
        await self._room.acquire()

        def acted() -> None:
            self._room.release()
            act()

        self.put(acted)

    def put(self, act: Callable[[], None]) -> None:
        """Something to be done after what is there already."""
        self._queue.put_nowait(act)

    def put_event(self, turn: int, event: Event, on_event: Callable[[int, Event], None]) -> None:
        """An event of the job of a turn."""
        if event["kind"] != "progress":
            self._waiting.pop(turn, None)  # what follows must not be taken up by what came before it
            self.put(lambda: on_event(turn, event))
        elif (waits := self._waiting.get(turn)) is not None:
            plan = waits["plan"] if event["plan"] is None else event["plan"]
            waits.update({**event, "plan": plan, "steps": [*waits["steps"], *event["steps"]]})
        else:
            self._waiting[turn] = waits = event.copy()
            self.put(lambda: self._take(turn, waits, on_event))

    def _take(self, turn: int, event: ProgressEvent, on_event: Callable[[int, Event], None]) -> None:
        if self._waiting.get(turn) is event:
            del self._waiting[turn]
        on_event(turn, event)

    async def get(self) -> Callable[[], None]:
        """The next thing to do, once there is one."""
        return await self._queue.get()


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


if sys.platform == "linux":
    import fcntl
    import termios

SLOW_S = 30.0
"""A connection that has much to take, or a file to give, and neither takes nor gives a byte for this long is closed."""


def patient(protocol: type[asyncio.Protocol], seconds: float) -> type[asyncio.Protocol]:
    """A protocol of uvicorn's that ends a connection whose peer takes nothing for so long. It counts only while more is
    waiting than the transport likes to hold (64 KiB): a connection where nothing is to be sent may be silent, and a
    slow one may take all the time it needs, as long as something moves."""

    class Patient(protocol):  # type: ignore[valid-type, misc]
        _alarm: asyncio.TimerHandle | None = None
        _untaken = 0
        """Bytes that waited at the last look."""

        def pause_writing(self) -> None:
            super().pause_writing()
            self._look_later()

        def resume_writing(self) -> None:
            self._calm()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._calm()
            super().connection_lost(exc)

        def _look_later(self) -> None:
            self._untaken = _untaken(self.transport)
            self._alarm = asyncio.get_running_loop().call_later(seconds, self._look)

        def _look(self) -> None:
            if _untaken(self.transport) < self._untaken:
                self._look_later()
            else:
                _hang_up(self.transport)

        def _calm(self) -> None:
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None

    return Patient


def _untaken(transport: asyncio.Transport) -> int:
    """Bytes that the peer has not acknowledged: here, and in the kernel, which takes more from here only once a third
    of its own is gone, up to 4 MB on Linux."""
    waiting: int = transport.get_write_buffer_size()
    held = transport.get_extra_info("socket")
    if held is None or sys.platform != "linux":
        return waiting
    return waiting + int.from_bytes(fcntl.ioctl(held.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def _hang_up(transport: asyncio.Transport) -> None:
    """At once: what the kernel holds for the peer, up to some MB, is freed too."""
    held = transport.get_extra_info("socket")
    if held is not None:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
