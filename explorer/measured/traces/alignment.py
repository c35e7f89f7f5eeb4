"""Two sequences of names laid side by side: which entries of the one are which of the other."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

MOST_APART = 2_000
"""Entries that either sequence may have and the other has not: work and memory grow with the square of this."""


def aligned(left: Sequence[str], right: Sequence[str], most: int = MOST_APART) -> list[tuple[int, int]] | None:
    """Positions (of left, of right) of the entries that a longest common subsequence pairs, ascending; None where more
    than ``most`` entries have no partner.

    The greedy algorithm of Myers, "An O(ND) difference algorithm and its variations" (1986), section 4: in every round
    the furthest end of a path on each diagonal (position in left less that in right), with one more entry left alone.
    """
    wide, high = len(left), len(right)
    ends = array("l", [0, 0, 0])  # of the diagonals -1, 0 and 1
    rounds = []
    for edits in range(min(wide + high, most) + 1):
        rounds.append(ends)
        after = array("l", [0] * (2 * edits + 5))  # of -edits - 2 to edits + 2
        for diagonal in range(-edits, edits + 1, 2):
            x = _from(ends, edits, diagonal)[0]
            y = x - diagonal
            while x < wide and y < high and left[x] == right[y]:
                x, y = x + 1, y + 1
            after[diagonal + edits + 2] = x
            if x >= wide and y >= high:
                return _walked_back(rounds, wide, high)
        ends = after
    return None


def _from(ends: array[int], edits: int, diagonal: int) -> tuple[int, int]:
    """Where a path on ``diagonal`` goes on in round ``edits``, in left, and the diagonal that it comes from. ends: of
    the diagonals -edits - 1 to edits + 1 after the round before."""
    below, above = ends[diagonal + edits], ends[diagonal + edits + 2]
    if edits == 0:
        return 0, 0
    if diagonal == -edits or (diagonal != edits and below < above):
        return above, diagonal + 1
    return below + 1, diagonal - 1


def _walked_back(rounds: Sequence[array[int]], wide: int, high: int) -> list[tuple[int, int]]:
    """The pairs along the path that ended in the corner. rounds: what each round began with."""
    x, y = wide, high
    pairs = []
    for edits in range(len(rounds) - 1, -1, -1):
        start, before = _from(rounds[edits], edits, x - y)
        while x > start:  # along the diagonal
            x, y = x - 1, y - 1
            pairs.append((x, y))
        if edits:
            x = start if before > x - y else start - 1
            y = x - before
    return pairs[::-1]
