"""Names for the parts of a graph whose file names none: blocks between its narrow places."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.problem.graph import topological_order

READABLE = 60
"""Operators that can be told apart when drawn at once; larger blocks are cut where more tensors cross."""
WIDEST = 4
"""Most operators whose output may cross the end of a block."""
LEAST = 4
"""Fewest operators of a block."""


def block_paths(successors: Sequence[Sequence[int]]) -> list[str]:
    """A module path, "block1" and so on, of every operator of a forward graph; "" for all of a small one.

    A block ends behind an operator that is read twice or more (a residual connection or a branching
    starts there) where few operators' outputs are still to be read: as few as give readable blocks.
    """
    order = topological_order(successors)
    if len(order) < len(successors) or len(order) <= READABLE:
        return [""] * len(successors)
    crossing = _crossing(successors, order)
    forks = [len(successors[operator]) > 1 for operator in order]
    ends = _ends(crossing, forks, 0, len(order), 1)
    paths = [""] * len(order)
    start = 0
    for number, end in enumerate(ends, 1):
        for rank in range(start, end):
            paths[order[rank]] = f"block{number}"
        start = end
    return paths if len(ends) > 1 else [""] * len(order)


def _crossing(successors: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """After every rank of ``order``: how many operators up to there are read later."""
    rank = {operator: i for i, operator in enumerate(order)}
    change = [0] * len(order)
    for operator, targets in enumerate(successors):
        if targets:
            change[rank[operator]] += 1
            change[max(rank[target] for target in targets)] -= 1
    total, crossing = 0, []
    for step in change:
        total += step
        crossing.append(total)
    return crossing


def _ends(crossing: Sequence[int], forks: Sequence[bool], start: int, stop: int, width: int) -> list[int]:
    """Where the blocks of ranks ``start`` to ``stop`` end (the last at ``stop``)."""
    ends = []
    last = start
    for rank in range(start, stop - LEAST):
        if forks[rank] and crossing[rank] <= width and rank + 1 - last >= LEAST:
            last = rank + 1
            ends.append(last)
    ends.append(stop)
    if width == WIDEST:
        return ends
    found = []
    for first, end in zip([start, *ends[:-1]], ends, strict=True):
        found += _ends(crossing, forks, first, end, width + 1) if end - first > READABLE else [end]
    return found
