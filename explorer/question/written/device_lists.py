"""Lists of device kinds and of memory caps, one for all accelerators or one for each."""

from __future__ import annotations

import re
from itertools import groupby

from explorer.question.written.quantities import parse_bytes
from solvers.errors import InvalidProblem

MAX_DEVICES = 16_384
"""Of a question."""

_COUNTED = re.compile(r"([0-9]{1,9})\s*x\s*(.+)")


def parse_kinds(text: str) -> str | tuple[str, ...]:
    """ "V100-32GB" -> that kind for all accelerators; "2xV100-32GB,L4-24GB" -> one for each of three.

    Whether there are such kinds is not looked at. Raises InvalidProblem.
    """
    expected = "expected a device kind, or one for each accelerator such as 2xV100-32GB,2xA100-40GB"
    kinds: list[str] = []
    for part in text.split(","):
        counted = _COUNTED.fullmatch(part.strip())
        count, kind = (int(counted[1]), counted[2]) if counted else (1, part.strip())
        if not kind or count < 1:
            raise InvalidProblem(f"{expected}; found {text[:80]!r}")
        if len(kinds) + count > MAX_DEVICES:
            raise InvalidProblem(f"at most {MAX_DEVICES:,} accelerators are planned for, found more in {text[:80]!r}")
        kinds += [kind] * count
    return text.strip() if len(kinds) == 1 and _COUNTED.fullmatch(text.strip()) is None else tuple(kinds)


def kinds_text(kinds: str | tuple[str, ...]) -> str:
    """What `parse_kinds` reads the same from: runs of one kind as "2xV100-32GB"."""
    if isinstance(kinds, str):
        return kinds
    return ",".join(f"{len(list(run))}x{kind}" for kind, run in groupby(kinds))


def parse_caps(text: str) -> float | tuple[float, ...]:
    """ "80GiB" -> bytes of every accelerator; "80GiB,16GiB" -> of each of two. Raises InvalidProblem."""
    parts = text.split(",")
    if len(parts) > MAX_DEVICES:
        raise InvalidProblem(f"at most {MAX_DEVICES:,} accelerators are planned for, found {len(parts):,} sizes")
    sizes = tuple(parse_bytes(part) for part in parts)
    return sizes if len(sizes) > 1 else sizes[0]
