"""Ranges and slices of different lengths as flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
