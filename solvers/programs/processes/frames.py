"""Messages over a pipe: eight bytes of length, then the message, pickled or as JSON."""

from __future__ import annotations

import json
import pickle
import struct
from typing import IO, Any

LENGTH = struct.Struct("<Q")
CHUNK_BYTES = 2**20


def write_frame(pipe: IO[bytes], data: bytes) -> None:
    """Raises OSError where nobody reads any more."""
    pipe.write(LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> bytes | None:
    """The next message; None at the end of the pipe, or where a message was cut short."""
    header = pipe.read(LENGTH.size)
    if len(header) < LENGTH.size:
        return None
    left = LENGTH.unpack(header)[0]
    chunks: list[bytes] = []
    while left:  # in pieces: a length that a stranger made up reserves no memory
        chunk = pipe.read(min(left, CHUNK_BYTES))
        if not chunk:
            return None
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def encode(message: object, trusted: bool) -> bytes:
    """JSON has infinity and NaN as Python writes them, and numpy's arrays and numbers as lists and numbers."""
    return pickle.dumps(message) if trusted else json.dumps(message, default=_plain).encode()


def decode(data: bytes, trusted: bool) -> object:
    return pickle.loads(data) if trusted else json.loads(data)


def _plain(value: object) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a message cannot hold a {type(value).__name__}")
