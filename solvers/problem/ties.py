"""Things that are tied together: disjoint sets."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Ints


class Ties:
    """Which of ``count`` things are tied together, directly or through others."""

    def __init__(self, count: int) -> None:
        self._next = list(range(count))

    def root(self, one: int) -> int:
        """The same one for all that are tied together."""
        while self._next[one] != one:
            self._next[one] = self._next[self._next[one]]
            one = self._next[one]
        return one

    def tie(self, one: int, other: int) -> int:
        """Tie two things and all that is tied to them; their root, the lower of both."""
        low, high = sorted((self.root(one), self.root(other)))
        self._next[high] = low
        return low

    def labels(self) -> Ints:
        """A number for each thing, the same for all that are tied together, by the first of them."""
        roots = [self.root(one) for one in range(len(self._next))]
        return np.unique(roots, return_inverse=True)[1].astype(np.int64)
