"""A draft as sets of bits: which stages follow which, and which moves leave them in an order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from solvers.coarsening.contracted import Shape
from solvers.plan.drafts import Draft, DraftStage


class Part(NamedTuple):
    """A stage of a draft over super-operators: bit i of ``mask`` is super-operator i; the rest as in DraftStage."""

    mask: int
    size: int
    replicas: int = 1
    recompute: bool = False
    block: int = 1
    slack: int = 0
    host: int | None = None

    def holding(self, mask: int) -> Part:
        """The same stage of other super-operators; faster than `_replace`."""
        return tuple.__new__(Part, (mask, *self[1:]))

    def on(self, replicas: int) -> Part:
        """The same stage on so many devices; faster than `_replace`."""
        return tuple.__new__(Part, (self[0], self[1], replicas, *self[3:]))


Parts = tuple[Part, ...]

MOST_KEPT = 50_000
"""Partitions whose order is kept."""


class Rows(NamedTuple):
    """after: for every set the sets that read of it, ascending. order: the sets, each after those that it reads
    of; shorter than they are many if some wait for each other."""

    after: list[list[int]]
    order: list[int]

    @property
    def acyclic(self) -> bool:
        return len(self.order) == len(self.after)


def bits(mask: int) -> list[int]:
    """The members of a set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def mask_of(members: Iterable[int]) -> int:
    """The set of these members."""
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask


def union(masks: Iterable[int]) -> int:
    """The members of any of these sets."""
    whole = 0
    for mask in masks:
        whole |= mask
    return whole


def places_of(parts: Sequence[Part]) -> dict[int, int]:
    """Stage with devices of its own -> its super-operators and those of its guests."""
    places: dict[int, int] = {}
    for index, part in enumerate(parts):
        place = index if part.host is None else part.host
        places[place] = places.get(place, 0) | part.mask
    return places


def parts_of(draft: Draft) -> Parts:
    """The stages of a draft over super-operators, see `tidy`."""
    return tidy(
        [
            Part(mask_of(s.operators), s.micro_batch_size, s.replicas, s.recompute, s.block, s.slack, s.host)
            for s in draft.stages
        ]
    )


def masks_of(parts: Sequence[Part]) -> tuple[int, ...]:
    """The sets of the stages."""
    return tuple([part[0] for part in parts])


def tidy(parts: Sequence[Part]) -> Parts:
    """The same stages by their first super-operator, so that equal drafts are equal tuples; a stage that
    shares the devices of another has its number of replicas."""
    firsts = [part[0] & -part[0] for part in parts]
    order = sorted(range(len(parts)), key=firsts.__getitem__)
    if not any(part[6] is not None for part in parts):
        return tuple([parts[i] for i in order])
    rank = {old: new for new, old in enumerate(order)}
    return tuple(
        [
            part if part.host is None else part._replace(host=rank[part.host], replicas=parts[part.host].replicas)
            for part in (parts[i] for i in order)
        ]
    )


class StageGraph:
    """What the forward graph of super-operators says of stages. Answers are kept: searches ask again and again."""

    def __init__(self, shape: Shape) -> None:
        self.count = len(shape)
        self.before = [0] * self.count
        self.after = [0] * self.count
        for u, v in shape.edges:
            self.after[u] |= 1 << v
            self.before[v] |= 1 << u
        self._members: dict[int, tuple[int, ...]] = {}
        self._readers: dict[int, int] = {}
        self._rows: dict[tuple[int, ...], Rows] = {}
        self._runs: dict[tuple[int, int, bool], list[int]] = {}

    def draft(self, parts: Sequence[Part]) -> Draft:
        """The draft of these stages."""
        return Draft(tuple(DraftStage(self.members(p.mask), *p[1:]) for p in parts))

    def members(self, mask: int) -> tuple[int, ...]:
        """The super-operators of a set, ascending: a topological order."""
        if mask not in self._members:
            self._members[mask] = tuple(bits(mask))
        return self._members[mask]

    def readers(self, mask: int) -> int:
        """The super-operators outside a set that read of it."""
        if mask not in self._readers:
            found = 0
            for member in self.members(mask):
                found |= self.after[member]
            self._readers[mask] = found & ~mask
        return self._readers[mask]

    def rows(self, masks: tuple[int, ...]) -> Rows:
        """How the sets of a partition follow each other."""
        if masks not in self._rows:
            if len(self._rows) > MOST_KEPT:
                self._rows.clear()
            self._rows[masks] = self._rows_of(masks)
        return self._rows[masks]

    def _rows_of(self, masks: tuple[int, ...]) -> Rows:
        after: list[list[int]] = []
        waiting = [0] * len(masks)
        known = self._readers
        for own in masks:
            readers = known[own] if own in known else self.readers(own)
            row = [i for i, mask in enumerate(masks) if readers & mask] if readers else []
            for i in row:
                waiting[i] += 1
            after.append(row)
        order = [i for i, count in enumerate(waiting) if not count]
        for index in order:
            for target in after[index]:
                waiting[target] -= 1
                if not waiting[target]:
                    order.append(target)
        return Rows(after, order)

    def acyclic(self, parts: Sequence[Part], *, by_stage: bool = False) -> bool:
        """Whether neither stages nor, unless ``by_stage``, the groups of stages that share devices wait for
        each other in the forward pass."""
        masks = masks_of(parts)
        if not self.rows(masks).acyclic:
            return False
        if by_stage or not any(part[6] is not None for part in parts):
            return True
        return self.rows(tuple(places_of(parts).values())).acyclic

    def components(self, mask: int) -> list[int]:
        """The weakly connected components of a set, first member first."""
        found = []
        while mask:
            component = todo = mask & -mask
            while todo:
                low = todo & -todo
                member = low.bit_length() - 1
                new = (self.after[member] | self.before[member]) & mask & ~component
                component |= new
                todo = (todo ^ low) | new
            found.append(component)
            mask &= ~component
        return found

    def run(self, mask: int, towards: int, *, downstream: bool) -> list[int]:
        """The order in which the members of a set may leave it for the set ``towards``, one by one.

        downstream: whatever leaves takes along all that follows it in the set (else: all that precedes it).
        Members with neighbours among those gone or in ``towards`` go first, then the last (else: first)
        ones by number. At most half of the set, and at least one member less than all of it.
        """
        key = (mask, towards, downstream)
        if key in self._runs:
            return self._runs[key]
        ahead, behind = (self.after, self.before) if downstream else (self.before, self.after)
        sign = -1 if downstream else 1
        members = self.members(mask)
        left, gone = mask, towards
        run: list[int] = []
        heap: list[tuple[bool, int]] = []
        for member in members:
            if not ahead[member] & mask:
                heappush(heap, (not (ahead[member] | behind[member]) & gone, sign * member))
        most = min(len(members) - 1, max(16, len(members) // 2))
        while heap and len(run) < most:
            _, signed = heappop(heap)
            member = sign * signed
            if not left >> member & 1:
                continue
            run.append(member)
            left ^= 1 << member
            gone |= 1 << member
            for other in bits(behind[member] & left):
                if not ahead[other] & left:
                    heappush(heap, (False, sign * other))
        self._runs[key] = run
        return run


def replaced(parts: Sequence[Part], index: int, part: Part) -> list[Part]:
    """The stages with one of them exchanged."""
    changed = list(parts)
    changed[index] = part
    return changed


def moved(parts: Sequence[Part], source: int, target: int, members: int) -> list[Part]:
    """The stages after some super-operators went from one to another; if none is left the stage goes,
    and stages that share its devices share those of the target."""
    changed = list(parts)
    changed[target] = parts[target].holding(parts[target].mask | members)
    left = parts[source].mask & ~members
    if left:
        changed[source] = parts[source].holding(left)
        return changed
    return without(changed, source, target)


def without(parts: Sequence[Part], gone: int, heir: int) -> list[Part]:
    """The stages but one; those that share its devices share those of the heir (or its host's) instead."""
    home = parts[heir].host
    home = heir if home is None or home == gone else home
    found = []
    for index, part in enumerate(parts):
        if index == gone:
            continue
        host = home if part.host == gone else part.host
        if host == index:
            host = None
        found.append(part if host is None and part.host is None else part._replace(host=_shifted(host, gone)))
    return found


def _shifted(index: int | None, gone: int) -> int | None:
    return index if index is None or index < gone else index - 1
