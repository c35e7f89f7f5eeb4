"""How many devices every stage of a draft gets."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from solvers.pipelines.costs import degrees_of
from solvers.pipelines.descent.rough import Rough
from solvers.pipelines.descent.stage_graph import Part, replaced
from solvers.problem.problem import Problem


class Shares:
    """Shares out the accelerators of a problem among the stages of drafts.

    devices: how many there are. counts: the numbers of micro-batches that are allowed. On how many
    devices a stage may be is told by `degrees_of`. single: super-operators whose stage has one device, as bits.
    """

    def __init__(self, problem: Problem, rough: Rough, single: int = 0) -> None:
        self.problem, self.rough, self.single = problem, rough, single
        self.devices = len(problem.cluster.accelerators)
        self.counts = frozenset(problem.micro_batch_choices())
        self._choices: dict[int, tuple[int, ...]] = {}

    def choices(self, size: int) -> tuple[int, ...]:
        """On how many devices a stage with micro-batches of ``size`` samples may be, ascending."""
        if size not in self._choices:
            self._choices[size] = degrees_of(self.problem, size)
        return self._choices[size]

    def at_most(self, size: int, devices: int) -> int:
        """The largest choice of so many devices; 0 if there is none."""
        return max((r for r in self.choices(size) if r <= devices), default=0)

    def allowed(self, size: int) -> bool:
        """Whether micro-batches may be of so many samples."""
        return size >= 1 and self.problem.mini_batch % size == 0 and self.problem.mini_batch // size in self.counts

    def used(self, parts: Sequence[Part]) -> int:
        """How many devices the stages take."""
        return sum([part[2] for part in parts if part[6] is None])

    def spread(self, parts: Sequence[Part], keep: int = -1) -> list[Part]:
        """The stages with the free devices given, again and again, to the busiest one that can use some of
        them and gets faster; ``keep`` gets none."""
        changed = list(parts)
        free = self.devices - self.used(changed)
        if free <= 0:
            return changed
        busiest = [
            (-self.rough.busy_s(p), i)
            for i, p in enumerate(changed)
            if p.host is None and i != keep and not p.mask & self.single
        ]
        heapq.heapify(busiest)
        while free > 0 and busiest:
            busy, index = heapq.heappop(busiest)
            part = changed[index]
            more = next((r for r in self.choices(part.size) if r > part.replicas), 0)
            if not more or more - part.replicas > free:
                continue
            larger = part.on(more)
            takes = self.rough.busy_s(larger)
            if takes < -busy:
                free -= more - part.replicas
                changed[index] = larger
                heapq.heappush(busiest, (-takes, index))
        return changed

    def squeeze(self, parts: Sequence[Part], keep: int = -1) -> list[Part]:
        """The stages with devices taken, again and again, from the one that is least busy without them, until
        there are enough (or none can give any: the draft then takes too many); ``keep`` gives none."""
        changed = list(parts)
        while self.used(changed) > self.devices:
            smaller = [
                (self.rough.busy_s(part.on(less)), i, less)
                for i, part in enumerate(changed)
                if part.host is None and i != keep and (less := self.at_most(part.size, part.replicas - 1))
            ]
            if not smaller:
                break
            _, index, less = min(smaller)
            changed = replaced(changed, index, changed[index].on(less))
        return changed

    def resized(self, parts: Sequence[Part], sizes: Sequence[int]) -> list[Part]:
        """The stages with other micro-batches, on as many devices as these allow."""
        changed = [
            part._replace(size=size, replicas=max(1, self.at_most(size, part.replicas)))
            for part, size in zip(parts, sizes, strict=True)
        ]
        return self.spread(changed)
