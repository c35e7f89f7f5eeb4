"""Which question waits for which: those that begin with the plan of another one wait until it is found.

Fixed by the questions and by which of them have plans, so whoever answers them, how many at once, and in whatever order
they come back, each begins with the same plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence


class Order:
    """Hands out the positions of questions that can be asked now, the first ones first.

    before: position -> the earlier ones whose plan it may begin with, the best of them first; () for one that begins
    afresh. It begins with the first of these that has a plan, and so waits for each until one has.
    """

    def __init__(self, count: int, before: Callable[[int], Sequence[int]]) -> None:
        self._before = [iter(before(position)) for position in range(count)]
        self._plan: list[bool | None] = [None] * count
        self._starts: dict[int, int | None] = {}
        self._waiting: dict[int, list[int]] = {}
        self._ready: list[int] = []
        for position in range(count):
            self._look(position, next(self._before[position], None))

    def __len__(self) -> int:
        """Questions without an answer."""
        return self._plan.count(None)

    def next(self) -> int | None:
        """Hand out a question; None if there is none that could be asked now."""
        return heapq.heappop(self._ready) if self._ready else None

    def start(self, position: int) -> int | None:
        """Whose plan a question that was handed out begins with."""
        return self._starts[position]

    def answered(self, position: int, has_plan: bool) -> None:
        """Its answer is there: those that waited for it can be asked, or wait for another one."""
        self._plan[position] = has_plan
        for waiting in self._waiting.pop(position, ()):
            self._look(waiting, position)

    def _look(self, position: int, at: int | None) -> None:
        while at is not None and self._plan[at] is False:
            at = next(self._before[position], None)
        if at is not None and self._plan[at] is None:
            self._waiting.setdefault(at, []).append(position)
            return
        self._starts[position] = at
        heapq.heappush(self._ready, position)


def at_once(count: int, before: Callable[[int], Sequence[int]]) -> int:
    """How many questions can be asked at the same time at most, if each takes equally long and has a plan."""
    depth: list[int] = []
    for position in range(count):
        first = next(iter(before(position)), None)
        depth.append(0 if first is None else depth[first] + 1)
    return max((depth.count(level) for level in set(depth)), default=0)
