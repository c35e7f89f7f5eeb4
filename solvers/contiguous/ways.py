"""Which devices a part of a chain may have, where accelerators are of several kinds or memories."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from solvers.problem.problem import Problem

MOST_STATES = 1_000
"""Numbers of devices in use, class by class, that the dynamic programs distinguish."""
MOST_WAYS = 100


@dataclass(frozen=True, slots=True)
class Ways:
    """Classes of accelerators that are alike, and what a part may have of them.

    classes: their devices. rows: (kind, replicas) that have costs of their own. draws: how many devices of each
    class, [ways but for a CPU][classes]; row_of: the row of each.
    """

    classes: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[str, int], ...]
    draws: tuple[tuple[int, ...], ...]
    row_of: tuple[int, ...]


def ways_of(problem: Problem, replicas: int) -> Ways:
    """One device, or up to ``replicas`` accelerators of one kind, of whatever memories.

    Devices of one kind that differ in memory are one class, with the least of it, where distinguishing them would make
    more than MOST_STATES or MOST_WAYS.
    """
    distinct = _ways(problem, replicas, by_memory=True)
    if states(problem, distinct) <= MOST_STATES and len(distinct.draws) <= MOST_WAYS:
        return distinct
    return _ways(problem, replicas, by_memory=False)


def states(problem: Problem, ways: Ways) -> int:
    """How many numbers of devices in use there are, class by class."""
    return math.prod(len(devices) + 1 for devices in (*ways.classes, problem.cluster.cpus))


def too_many(problem: Problem, replicas: int) -> str | None:
    """Why the dynamic programs cannot distinguish the kinds of accelerators, or None."""
    ways = ways_of(problem, replicas)
    count = states(problem, ways)
    kinds = {problem.cluster.devices[devices[0]].kind for devices in ways.classes}
    if len(kinds) < 2 or (count <= MOST_STATES and len(ways.draws) <= MOST_WAYS):
        return None
    return (
        f"accelerators of {len(kinds)} kinds can be in use in {count:,} combinations, at most {MOST_STATES:,} are"
        " searched; use auto"
    )


def _ways(problem: Problem, replicas: int, *, by_memory: bool) -> Ways:
    cluster = problem.cluster
    alike: dict[tuple[str, float], list[int]] = {}
    for number in cluster.accelerators:
        device = cluster.devices[number]
        alike.setdefault((device.kind, device.memory_bytes if by_memory else 0.0), []).append(number)
    kinds = list(dict.fromkeys(kind for kind, _ in alike))
    rows, draws, row_of = [], [], []
    for kind in kinds:
        of_kind = [number for number, key in enumerate(alike) if key[0] == kind]
        sizes = [len(devices) for devices in alike.values()]
        for r in range(1, min(replicas, sum(sizes[number] for number in of_kind)) + 1):
            rows.append((kind, r))
            for chosen in itertools.combinations_with_replacement(of_kind, r):
                draw = tuple(chosen.count(number) for number in range(len(alike)))
                if all(count <= size for count, size in zip(draw, sizes, strict=True)):
                    draws.append(draw)
                    row_of.append(len(rows) - 1)
                if len(draws) > MOST_WAYS and by_memory:
                    break
    return Ways(tuple(map(tuple, alike.values())), tuple(rows) or (("", 1),), tuple(draws), tuple(row_of))
