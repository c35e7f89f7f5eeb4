"""Strict JSON: what other people's files must be before anything looks inside them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping

from solvers.errors import InvalidProblem

MAX_BYTES = 256 * 2**20
"""Largest JSON text read. The largest workload of the field is 9 MB; a 100,000 operator graph of ours 60 MB."""
MAX_DEPTH = 32
"""Deepest nesting read; our own formats need 6."""
MAX_DIGITS = 309
"""Of an integer, its sign included: what has more is no float, and a message that says it is no line."""


def file_bytes(path: str | os.PathLike[str], most: int = MAX_BYTES) -> bytes:
    """What is in a file. Raises InvalidProblem, in one line that names the file, if it cannot be read, or holds more
    than ``most``, which is known before it is read."""
    try:
        if os.path.getsize(path) > most:
            raise InvalidProblem(f"{path}: at most {most:,} bytes are read")
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidProblem(f"{path}: {(error.strerror or str(error)).lower()}") from None


def parse_json(data: bytes | str, where: str) -> object:
    """The value of a JSON text, or InvalidProblem with one line that names ``where``.

    Stricter than `json.loads`: UTF-8 only, no NaN or Infinity (nor a number too large for a
    float), no key twice in one object, at most MAX_BYTES long and MAX_DEPTH deep.
    """
    if len(data) > MAX_BYTES:
        raise InvalidProblem(f"{where}: {len(data):,} bytes of JSON, at most {MAX_BYTES:,} are read")
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        value: object = json.loads(
            text,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_whole,
            object_pairs_hook=_unique_keys,
        )
    except UnicodeDecodeError as error:
        raise InvalidProblem(f"{where}: not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        ended = error.pos >= len(text.rstrip())
        what = "the JSON ends too early (a truncated file?)" if ended or _open_string(error) else "not JSON"
        raise InvalidProblem(f"{where}: {what}: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise InvalidProblem(f"{where}: JSON nested deeper than {MAX_DEPTH} levels") from None
    except _RefusedError as error:
        raise InvalidProblem(f"{where}: {error}") from None
    _check_depth(value, where)
    return value


def dump_json(value: object, *, indent: int | None = None) -> str:
    """JSON text. Raises ValueError for NaN or infinity: the caller encodes these as null."""
    separators = (",", ": ") if indent else (",", ":")
    return json.dumps(value, allow_nan=False, indent=indent, separators=separators)


def finite_or_none(value: float) -> float | None:
    """JSON has no infinity: null stands for it (and for NaN) wherever one may occur."""
    return value if math.isfinite(value) else None


class _RefusedError(Exception):
    """Not a ValueError, so that it is distinguished from what `json` raises."""


def _no_constant(name: str) -> float:
    raise _RefusedError(f"{name} is not JSON; every number must be finite")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _RefusedError(f"the number {digits[:40]} is too large; every number must be finite")
    return value


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise _RefusedError(f"the number {digits[:40]}... is too large; every number must be finite")
    return int(digits)


def _unique_keys(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"the key {key[:80]!r} occurs twice in one object")
            seen.add(key)
    return entries


def _open_string(error: json.JSONDecodeError) -> bool:
    return error.msg.startswith("Unterminated string")


def _check_depth(value: object, where: str) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        inside: list[object] = []
        for container in level:
            if isinstance(container, dict):
                inside.extend(item for item in container.values() if isinstance(item, dict | list))
            elif isinstance(container, list):
                inside.extend(item for item in container if isinstance(item, dict | list))
        if not inside:
            return
        level = inside
    raise InvalidProblem(f"{where}: JSON nested deeper than {MAX_DEPTH} levels")
