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
    found = np.zeros(len(each) + 1, np.int64)
    np.cumsum(each, out=found[1:])
    return found
