"""Ranges and slices of different lengths as flat arrays, and who has which samples.

A mini-batch is cut into equal slices, one way here and another way there: a stage of r replicas and micro-batches of b
samples cuts it into slices of b / r samples; slice ``k`` is that of replica ``k % r`` in micro-batch ``k // r``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain

import numpy as np

from solvers.kernels.arrays import Floats, Ints


def starts(sizes: Ints) -> Ints:
    """Where each of consecutive blocks of ``sizes`` begins, and where the last one ends: [blocks + 1]."""
    begins = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=begins[1:])
    return begins


def ranges(sizes: Ints) -> Ints:
    """0 .. size - 1 of every block, one block after the other."""
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(starts(sizes)[:-1], sizes)


def flat(lists: Sequence[Iterable[int]]) -> tuple[Ints, Ints]:
    """Lists one after the other: (which list, what stands there)."""
    sizes = np.array([len(tuple(entries)) for entries in lists], np.int64)
    values = np.fromiter(chain.from_iterable(lists), np.int64, int(sizes.sum()))
    return np.repeat(np.arange(len(lists)), sizes), values


def ints(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)


def sums(of: Ints, weights: Floats, count: int) -> Floats:
    """Sum of the weights of each of ``count`` owners."""
    total: Floats = np.bincount(of, weights, minlength=count).astype(np.float64)
    return total


@cache
def overlaps(here_count: int, there_count: int) -> tuple[Ints, Ints, Floats]:
    """Slices that have samples in common, of a whole cut into ``here_count`` slices and into ``there_count``.

    Returns (slice of the one, slice of the other, what they share as a part of the whole), in this order.
    """
    k = np.arange(here_count, dtype=np.int64)
    first = k * there_count // here_count
    last = -(-(k + 1) * there_count // here_count)
    sizes = last - first
    here = np.repeat(k, sizes)
    there = np.repeat(first, sizes) + ranges(sizes)
    # on a grid of here_count x there_count cells, where both ways to cut fall on whole cells
    cells = np.minimum((here + 1) * there_count, (there + 1) * here_count) - np.maximum(
        here * there_count, there * here_count
    )
    return here, there, cells / (here_count * there_count)
