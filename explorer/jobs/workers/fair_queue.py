"""Whose turn it is: brief jobs first, then first plans, then better ones, then what is found out beside them; among
equals the visitor who has least at work, and of these the one whose turn was longest ago."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping

from explorer.jobs.workers.job import FIRST, IMPROVING, LATER, Job

MOST_PASSED = 8
"""A job that so many others were taken before, because they had the better rank, has that rank too."""


class FairQueue:
    """Jobs that wait, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: list[Job] = []
        self._served: dict[str, int] = {}
        self._turn = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, job: Job) -> bool:
        return job in self._waiting

    def add(self, job: Job) -> None:
        self._waiting.append(job)

    def put_back(self, job: Job) -> None:
        """One that was taken and never begun."""
        self._waiting.insert(0, job)

    def remove(self, job: Job) -> None:
        self._waiting.remove(job)

    def take(self, job: Job) -> None:
        """It is its turn."""
        self._waiting.remove(job)
        for other in self._waiting:
            if _rank(other) > _rank(job) >= FIRST and not job.first_only:
                other.passed += 1
        if job.brief:
            return
        self._turn += 1
        self._served[job.visitor] = self._turn
        if len(self._served) > 4096:  # visitors that are long gone
            self._served = dict(sorted(self._served.items(), key=lambda one: one[1])[-1024:])

    def order(self, at_work: Mapping[str, int]) -> list[Job]:
        """Those that wait, as they would be taken if none other came. at_work: searches of each visitor that run."""
        ranked: dict[int, dict[str, deque[Job]]] = defaultdict(lambda: defaultdict(deque))
        for job in self._waiting:
            ranked[_rank(job)][job.visitor].append(job)
        counts, served, turn = Counter(at_work), dict(self._served), self._turn
        ordered: list[Job] = []
        for _, queues in sorted(ranked.items()):
            places = {visitor: place for place, visitor in enumerate(queues)}
            while queues:
                next_one = min(queues, key=lambda who: (counts[who], served.get(who, 0), places[who]))
                ordered.append(queues[next_one].popleft())
                if not queues[next_one]:
                    del queues[next_one]
                turn += 1
                counts[next_one] += 1
                served[next_one] = turn
        return ordered


def _rank(job: Job) -> int:
    if job.brief:
        return 0
    if job.long and job.passed < MOST_PASSED:
        return LATER
    return IMPROVING if job.improving else FIRST
