"""Arrays by what they hold: the type says the dtype, a docstring the shape and unit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]


def starts(sizes: Iterable[int] | Ints) -> Ints:
    """[rows + 1] where rows of these sizes begin that follow one another, and where the last ends."""
    each = sizes if isinstance(sizes, np.ndarray) else np.fromiter(sizes, np.int64)
    begins = np.zeros(len(each) + 1, np.int64)
    np.cumsum(each, out=begins[1:])
    return begins


def inverse(rows: Iterable[Iterable[int]], count: int) -> list[list[int]]:
    """Of each of ``count`` numbers the rows that it is in, ascending."""
    rows_of: list[list[int]] = [[] for _ in range(count)]
    for row, numbers in enumerate(rows):
        for number in numbers:
            rows_of[number].append(row)
    return rows_of


def members_of(labels: Iterable[int], count: int) -> list[list[int]]:
    """What has each of ``count`` labels, ascending."""
    return inverse(((label,) for label in labels), count)
