"""Experts on devices under a stated load: how many replicas each has, and where they stand.

All devices have equally many slots. A replica of an expert with r of them takes 1/r of its load. The largest load of a
device is minimised: a bin packing of equal numbers of items whose sizes are chosen, too.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from solvers.errors import InvalidProblem

SLACK = 1e-9
"""Relative: loads closer than this are equal."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Experts of every device, with what was proved.

    devices: per device, the experts in its slots.
    load: of the busiest device, in the unit of the loads.
    bound: no packing has a busiest device with less.
    """

    devices: tuple[tuple[int, ...], ...]
    load: float
    bound: float

    @property
    def optimal(self) -> bool:
        """Whether no better packing exists."""
        return self.load <= self.bound * (1 + SLACK)


@dataclass(slots=True)
class _Effort:
    """Steps that are left of a search."""

    steps: int

    def spend(self) -> bool:
        self.steps -= 1
        return self.steps >= 0


def pack_experts(loads: Sequence[float], devices: int, slots: int, steps: int = 200_000) -> Packing:
    """The packing of least largest load: exact where ``steps`` suffice, else a good one with a bound.

    loads: tokens of each expert, or any measure of them.
    devices: how many there are.
    slots: experts that a device holds; ``devices * slots`` replicas in all.
    steps: nodes that the exact search may visit.
    """
    _check(loads, devices, slots)
    counts = _replicas(loads, devices * slots)
    best = _improved(loads, _longest_first(loads, counts, devices, slots))
    bound = max(sum(loads) / devices, max(load / count for load, count in zip(loads, counts, strict=True)))
    if len(loads) == devices * slots:  # each once: the most loaded stands beside so many others, the least at best
        lightest_first = sorted(loads)
        bound = max(bound, lightest_first[-1] + sum(lightest_first[: slots - 1]))
    load = _largest(loads, best)
    effort = _Effort(steps)
    while load > bound * (1 + SLACK):
        better = _better(loads, devices, slots, load, effort)
        if better is None:
            bound = load if effort.steps >= 0 else bound
            break
        best, load = better, _largest(loads, better)
    return Packing(tuple(tuple(sorted(device)) for device in best), load, min(bound, load))


def check_redundant(name: str, experts: int, redundant: int, devices: int) -> None:
    """Raises InvalidProblem where devices cannot hold equally many of the experts and those that are redundant, or
    more of these are asked for than one replica of each expert on every device. name: of what has the experts."""
    if (experts + redundant) % devices:
        words = f"{experts} experts and {redundant} redundant ones" if redundant else f"{experts} experts"
        least = -experts % devices
        raise InvalidProblem(
            f"{name}: {words} cannot be divided over {devices} devices (--expert-parallel); they can with"
            f" --redundant-experts {least or devices}"
        )
    if experts + redundant > experts * devices:
        raise InvalidProblem(
            f"{name}: {redundant} redundant experts are more than a replica of each of {experts} on {devices} devices;"
            f" give at most {experts * (devices - 1)} (--redundant-experts)"
        )


def _check(loads: Sequence[float], devices: int, slots: int) -> None:
    if devices < 1 or slots < 1 or not loads:
        raise InvalidProblem("experts are packed on at least one device with a slot: state loads, devices and slots")
    if not all(isfinite(load) and load >= 0 for load in loads):
        raise InvalidProblem("the load of an expert is a finite number of at least 0")
    if len(loads) > devices * slots:
        raise InvalidProblem(
            f"{len(loads)} experts do not fit into {devices} x {slots} slots: take more devices, or more slots"
        )


def _replicas(loads: Sequence[float], total: int) -> list[int]:
    """How many replicas each expert has when the largest load of a replica is least.

    Giving the next replica to the largest load of a replica is optimal: an expert above the final largest load must
    have more replicas in any better choice, and those below had theirs only while they were the largest.
    """
    counts = [1] * len(loads)
    queue = [(-load, expert) for expert, load in enumerate(loads)]
    heapq.heapify(queue)
    for _ in range(total - len(loads)):
        _, expert = queue[0]
        counts[expert] += 1
        heapq.heapreplace(queue, (-loads[expert] / counts[expert], expert))
    return counts


def _counts(devices: Sequence[Sequence[int]]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for device in devices:
        for expert in device:
            counts[expert] = counts.get(expert, 0) + 1
    return counts


def _sums(loads: Sequence[float], devices: Sequence[Sequence[int]]) -> list[float]:
    counts = _counts(devices)
    return [sum(loads[expert] / counts[expert] for expert in device) for device in devices]


def _largest(loads: Sequence[float], devices: Sequence[Sequence[int]]) -> float:
    return max(_sums(loads, devices))


def _longest_first(loads: Sequence[float], counts: Sequence[int], devices: int, slots: int) -> list[list[int]]:
    """Replicas by falling load, each on the device of least load that has a free slot (Graham, 1969)."""
    items = [expert for expert, count in enumerate(counts) for _ in range(count)]
    items.sort(key=lambda expert: -loads[expert] / counts[expert])
    packed: list[list[int]] = [[] for _ in range(devices)]
    queue = [(0.0, device) for device in range(devices)]
    for expert in items:
        load, device = heapq.heappop(queue)
        packed[device].append(expert)
        if len(packed[device]) < slots:
            heapq.heappush(queue, (load + loads[expert] / counts[expert], device))
    return packed


def _improved(loads: Sequence[float], packed: list[list[int]]) -> list[list[int]]:
    """The packing after swaps of two replicas, each of which relieves the busiest device, while there is one."""
    counts = _counts(packed)
    share = {expert: loads[expert] / count for expert, count in counts.items()}
    sums = _sums(loads, packed)
    while True:
        top = max(range(len(packed)), key=sums.__getitem__)
        swaps = (
            (max(sums[top] - gain, sums[other] + gain), other, one, two)
            for other in range(len(packed))
            if other != top
            for one, first in enumerate(packed[top])
            for two, second in enumerate(packed[other])
            if (gain := share[first] - share[second]) > 0
        )
        least, other, one, two = min(swaps, default=(inf, 0, 0, 0))
        if least >= sums[top] * (1 - SLACK):
            return packed
        packed[top][one], packed[other][two] = packed[other][two], packed[top][one]
        for device in (top, other):
            sums[device] = sum(share[expert] for expert in packed[device])


def _better(loads: Sequence[float], devices: int, slots: int, limit: float, effort: _Effort) -> list[list[int]] | None:
    """A packing whose largest load is below ``limit``; None if there is none, or the effort is spent."""
    cap = limit * (1 - SLACK)
    for counts in _choices(loads, devices * slots, cap, effort):
        packed = _fitted(loads, counts, devices, slots, cap, effort)
        if packed is not None:
            return packed
        if effort.steps < 0:
            return None
    return None


def _choices(loads: Sequence[float], total: int, cap: float, effort: _Effort) -> Iterator[list[int]]:
    """Every number of replicas by expert that fills the slots with none above ``cap``."""
    least = [1] * len(loads)
    for expert, load in enumerate(loads):
        while load / least[expert] > cap:
            least[expert] += 1
    counts = list(least)

    def rest(expert: int, free: int) -> Iterator[list[int]]:
        if not effort.spend():
            return
        if expert == len(loads) - 1:
            counts[expert] = least[expert] + free
            yield list(counts)
            return
        for more in range(free + 1):
            counts[expert] = least[expert] + more
            yield from rest(expert + 1, free - more)

    if sum(least) <= total:
        yield from rest(0, total - sum(least))


def _fitted(
    loads: Sequence[float], counts: Sequence[int], devices: int, slots: int, cap: float, effort: _Effort
) -> list[list[int]] | None:
    """Replicas in the slots so that no device is above ``cap``, by depth first search; None as in `_better`."""
    items = [expert for expert, count in enumerate(counts) for _ in range(count)]
    share = [load / count for load, count in zip(loads, counts, strict=True)]
    items.sort(key=lambda expert: (-share[expert], expert))
    packed: list[list[int]] = [[] for _ in range(devices)]
    sums = [0.0] * devices
    least = share[items[-1]]

    def place(position: int) -> bool:
        if position == len(items):
            return True
        expert = items[position]
        seen: set[tuple[float, int]] = set()
        for device in sorted(range(devices), key=sums.__getitem__, reverse=True):
            state = (sums[device], len(packed[device]))
            after = sums[device] + share[expert]
            free = slots - len(packed[device]) - 1
            if free < 0 or state in seen or after + free * least > cap:
                continue
            seen.add(state)
            if not effort.spend():
                return False
            packed[device].append(expert)
            sums[device] = after
            if place(position + 1):
                return True
            packed[device].pop()
            sums[device] = state[0]
        return False

    return packed if place(0) else None
