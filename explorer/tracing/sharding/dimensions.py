"""Named dimensions: which lengths in a captured graph are one and the same.

A dimension of a tensor is a list of leaves, the outermost first: a view that splits it splits leaves, a call that
multiplies or adds two tensors makes leaves of both the same. A tensor is divided along a leaf.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

Leaves = tuple[int, ...]
"""Of one dimension of a tensor; () for a length of 1."""


class Dimensions:
    """Leaves with their lengths; which are the same, and into which others they were split."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self._same_as: list[int] = []
        self._parts: dict[int, Leaves] = {}
        self._sorted_from: dict[int, Leaves] = {}

    def new(self, length: int) -> Leaves:
        """A leaf of its own for one dimension of a tensor."""
        if length == 1:
            return ()
        self.lengths.append(length)
        self._same_as.append(len(self._same_as))
        return (len(self.lengths) - 1,)

    def leaves(self, dimension: Iterable[int]) -> Leaves:
        """What ``dimension`` consists of now: each leaf by its representative, those that were split by their parts."""
        least: list[int] = []
        for leaf in dimension:
            while self._same_as[leaf] != leaf:
                leaf = self._same_as[leaf]
            least += self.leaves(self._parts[leaf]) if leaf in self._parts else (leaf,)
        return tuple(least)

    def sorted_from(self, dimension: Iterable[int]) -> Leaves:
        """Of rows that were sorted by values (those of experts): the dimension that they came from, along which they
        can be divided too, each member with the rows of its part; () of all else."""
        there = (self._sorted_from[leaf] for leaf in self.leaves(dimension) if leaf in self._sorted_from)
        return self.leaves(next(there, ()))

    def sort(self, dimension: Leaves) -> Leaves:
        """A dimension of the same entries in another order, that of values."""
        rows = self.new(self.length(self.leaves(dimension)))
        self._sorted_from.update(dict.fromkeys(rows, dimension))
        return rows

    def ways(self, dimension: Iterable[int]) -> Leaves:
        """The leaves along which a dimension can be divided: its own, and those that it was sorted from."""
        return tuple(dict.fromkeys((*self.leaves(dimension), *self.sorted_from(dimension))))

    def length(self, dimension: Iterable[int]) -> int:
        return math.prod(self.lengths[leaf] for leaf in dimension)

    def join(self, one: Iterable[int], other: Iterable[int]) -> bool:
        """Make two dimensions of equal length the same, splitting leaves where those of the other need it.

        False where they cannot be: lengths that have no common parts (6 x 4 and 4 x 6); then they stay as they are
        from there on.
        """
        left, right = list(self.leaves(one)), list(self.leaves(other))
        while left and right:
            a, b = left[0], right[0]
            if a == b:
                left.pop(0), right.pop(0)
            elif self.lengths[a] == self.lengths[b]:
                self._same_as[b] = a
                if b in self._sorted_from:
                    self._sorted_from.setdefault(a, self._sorted_from[b])
                left, right = list(self.leaves(left[1:])), list(self.leaves(right[1:]))
            elif self.lengths[a] % self.lengths[b] == 0:
                left = [*self._split(a, self.lengths[b]), *left[1:]]
            elif self.lengths[b] % self.lengths[a] == 0:
                right = [*self._split(b, self.lengths[a]), *right[1:]]
            else:
                return False
            left, right = list(self.leaves(left)), list(self.leaves(right))
        return not left and not right

    def _split(self, leaf: int, outer: int) -> Leaves:
        """Into an outer part of this length and an inner one."""
        self._parts[leaf] = (*self.new(outer), *self.new(self.lengths[leaf] // outer))
        if leaf in self._sorted_from:  # the inner part alone distinguishes rows from the experts that they go to
            self._sorted_from[self._parts[leaf][-1]] = self._sorted_from[leaf]
        return self._parts[leaf]

    def reshape(self, dimensions: Sequence[Leaves], shape: Sequence[int]) -> tuple[Leaves, ...]:
        """The dimensions of a tensor that is looked at in another shape of as many elements; new ones from the first
        length on that does not fit what is there."""
        left = list(self.leaves(leaf for dimension in dimensions for leaf in dimension))
        made: list[Leaves] = []
        for position, length in enumerate(shape):
            own: list[int] = []
            need = length
            while need > 1 and left:
                have = self.lengths[left[0]]
                if need % have == 0:
                    own.append(left.pop(0))
                    need //= have
                elif have % need == 0:
                    left = [*self._split(left[0], need), *left[1:]]
                else:
                    return (*made, *(self.new(n) for n in shape[position:]))
            made.append(tuple(own))
        return tuple(made)
