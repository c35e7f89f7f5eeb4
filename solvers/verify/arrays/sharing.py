"""Who has which samples: a mini-batch cut into equal slices, one way here and another way there.

A stage of r replicas and micro-batches of b samples cuts the mini-batch into slices of b / r samples; slice
``k`` is that of replica ``k % r`` in micro-batch ``k // r``.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.verify.arrays.ragged import ranges


@cache
def overlaps(mine: int, theirs: int) -> tuple[Ints, Ints, Floats]:
    """Slices that have samples in common where one cuts a whole into ``mine`` slices, the other into ``theirs``.

    Returns (slice of mine, slice of theirs, what they share as a part of the whole), by mine, then by theirs.
    """
    k = np.arange(mine, dtype=np.int64)
    first = k * theirs // mine
    last = -(-(k + 1) * theirs // mine)
    sizes = last - first
    here = np.repeat(k, sizes)
    there = np.repeat(first, sizes) + ranges(sizes)
    # on a grid of mine x theirs cells, where both ways to cut fall on whole cells
    cells = np.minimum((here + 1) * theirs, (there + 1) * mine) - np.maximum(here * theirs, there * mine)
    return here, there, cells / (mine * theirs)
