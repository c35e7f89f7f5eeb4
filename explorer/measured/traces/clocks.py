"""Clocks of several hosts: how much each must be put on so that no message arrives before it was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Edge = tuple[int, int, float]
"""A sender, a receiver, and how much later by their clocks the receiver began than the sender ended; below 0 the clocks
cannot be right."""


def shifts(ranks: int, edges: Sequence[Edge]) -> list[float] | None:
    """What to add to the clock of every rank: the least that makes no edge negative, 0 for most; None where no shifts
    do (a message there and one back that together took less than no time). Longest paths, by relaxing all edges."""
    shifts_us = [0.0] * ranks
    tightest: dict[tuple[int, int], float] = {}
    for sender, receiver, later in edges:
        tightest[sender, receiver] = min(later, tightest.get((sender, receiver), later))
    for _ in range(ranks):
        if not _relax(shifts_us, tightest):
            return shifts_us
    return None


def _relax(shifts_us: list[float], tightest: Mapping[tuple[int, int], float]) -> bool:
    """Whether any clock had to be put on further."""
    changed = False
    for (sender, receiver), later in tightest.items():
        needed = shifts_us[sender] - later
        if needed > shifts_us[receiver] + 1e-6:
            shifts_us[receiver] = needed
            changed = True
    return changed
