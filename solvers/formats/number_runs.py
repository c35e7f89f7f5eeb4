"""Lists of many numbers by runs: "0-127" for the 128 of them, "0*8" for eight times 0, "0-15*8" for each of 16 eight
times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from solvers.formats.json_fields import Field

ONE_BY_ONE = 64
"""Devices up to which files name them, and their links, one by one, as older programs read them."""

_RUN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?(?:\*([0-9]{1,9}))?")


def runs(numbers: Sequence[int]) -> list[int | str]:
    """What `read_runs` reads these numbers from."""
    equal = [(number, len(list(same))) for number, same in groupby(numbers)]
    written: list[int | str] = []
    for first, last, times in _joined(equal):
        text = f"{first}-{last}" if last > first else f"{first}"
        written.append(int(text) if last == first and times == 1 else text if times == 1 else f"{text}*{times}")
    return written


def _joined(equal: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """(first, last, how often each) of ascending numbers that are there equally often."""
    first, last, times = -2, -2, 0
    for number, count in equal:
        if number == last + 1 and count == times:
            last = number
            continue
        if times:
            yield first, last, times
        first, last, times = number, number, count
    if times:
        yield first, last, times


def read_runs(field: Field, most: int, largest: int) -> tuple[int, ...]:
    """At most so many numbers, none larger than ``largest``. Raises InvalidProblem."""
    numbers: list[int] = []
    for item in field.items(most):
        if not isinstance(item.value, str):
            numbers.append(item.integer(0, largest))
        else:
            numbers += _read_run(item, most, largest)
        if len(numbers) > most:
            field.refuse(f"at most {most:,} numbers")
    return tuple(numbers)


def _read_run(field: Field, most: int, largest: int) -> list[int]:
    match = _RUN.fullmatch(field.text(64))
    first, last, times = (0, -1, 0) if match is None else (int(match[1]), int(match[2] or match[1]), int(match[3] or 1))
    if not 0 <= first <= last <= largest or not 1 <= times * (last - first + 1) <= most:
        field.refuse(f'a run such as "0-7" of at most {most:,} numbers up to {largest:,}')
    return [number for number in range(first, last + 1) for _ in range(times)]
