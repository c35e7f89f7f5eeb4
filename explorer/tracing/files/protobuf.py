"""The wire format of protocol buffers, read without a schema and without a copy: numbers and pieces of the file."""

from __future__ import annotations

from collections.abc import Iterator

from solvers.errors import InvalidProblem

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(number, value) of every field of a message: an integer (fixed-size ones as their bits), or what a field with a
    length holds. Nothing is read ahead. Raises InvalidProblem for what is no message."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == BYTES:
            size, at = _varint(data, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise InvalidProblem(f"not a protocol buffer: a field of wire type {kind}")
        if size > end - at:
            raise InvalidProblem("not a protocol buffer, or cut short: a field is longer than what is left")
        piece = data[at : at + size]
        yield key >> 3, piece if kind == BYTES else int.from_bytes(piece, "little")
        at += size


def piece(value: int | memoryview) -> memoryview:
    """A field that must have a length."""
    if isinstance(value, int):
        raise InvalidProblem("not as ONNX has it: a number in place of a message")
    return value


def text(value: int | memoryview) -> str:
    """A string."""
    return bytes(piece(value)).decode("utf-8", "replace")


def number(value: int | memoryview) -> int:
    """A signed integer of 64 bits."""
    if not isinstance(value, int):
        raise InvalidProblem("not as ONNX has it: a message in place of a number")
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def numbers(value: int | memoryview, most: int) -> list[int]:
    """A repeated integer: one, or several packed together. Raises InvalidProblem for more than ``most``."""
    if isinstance(value, int):
        return [number(value)]
    integers: list[int] = []
    at = 0
    while at < len(value):
        one, at = _varint(value, at)
        integers.append(number(one))
        if len(integers) > most:
            raise InvalidProblem(f"a list of more than {most:,} integers")
    return integers


def field(number: int, value: int | bytes | memoryview) -> bytes:
    """One field, as it is written."""
    if isinstance(value, int):
        return _written(number << 3 | VARINT) + _written(value & (2**64 - 1))
    return b"".join((_written(number << 3 | BYTES), _written(len(value)), value))


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise InvalidProblem("not a protocol buffer, or cut short: it ends inside a number")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise InvalidProblem("not a protocol buffer: a number of more than ten bytes")


def _written(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)
