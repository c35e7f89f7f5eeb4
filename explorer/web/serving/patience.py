"""Who takes none of what it asked for is hung up on: nothing is kept for it for ever."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import Any

if sys.platform == "linux":
    import fcntl
    import termios

SLOW_S = 30.0
"""A connection that has much to take, or a file to give, and neither takes nor gives a byte for this long is closed."""


def patient(protocol: type[Any], seconds: float) -> type[Any]:
    """A protocol of uvicorn's that ends a connection whose peer takes nothing for so long. It counts only while more is
    waiting than the transport likes to hold (64 KiB): a connection where nothing is to be sent may be silent, and a
    slow one may take all the time it needs, as long as something moves."""

    class Patient(protocol):
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
    """At once: what the kernel holds for the peer, up to some MB, is let go too."""
    held = transport.get_extra_info("socket")
    if held is not None:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
