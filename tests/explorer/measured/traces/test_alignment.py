"""Two sequences of names are paired by a longest common subsequence."""

from __future__ import annotations

import random
from itertools import pairwise

from explorer.measured.traces.alignment import aligned


def longest(left: str, right: str) -> int:
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def test_as_many_are_paired_as_can_be_in_order() -> None:
    chance = random.Random(0)
    for _ in range(500):
        left, right = ("".join(chance.choices("abc", k=chance.randrange(9))) for _ in range(2))
        pairs = aligned(left, right)
        assert pairs is not None
        assert all(left[i] == right[j] for i, j in pairs)
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
        assert len(pairs) == longest(left, right)


def test_what_is_too_different_is_not_paired() -> None:
    assert aligned("a" * 5, "b" * 5, most=9) is None
    assert aligned("a" * 5, "b" * 5, most=10) == []
    assert aligned("xaxaxa", "aaa", most=3) == [(1, 0), (3, 1), (5, 2)]
