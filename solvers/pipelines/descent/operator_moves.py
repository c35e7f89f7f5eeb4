"""Moves of super-operators from stage to stage."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from solvers.pipelines.descent.space import Space
from solvers.pipelines.descent.stage_graph import Part, mask_of, moved

Move = tuple[str, list[Part]]
"""What kind of change it is, and the stages it leads to, which may turn out not to be a draft."""

RUNS = (1, 2, 4, 8, 16)
"""How many super-operators one move takes along, so that a far optimum is reached quickly."""

FAR = 40
"""With more stages than this, super-operators are not handed on along paths of them."""


def shifts(space: Space, parts: Sequence[Part], stage: int) -> Iterator[Move]:
    """A run of super-operators goes to a neighbour or comes from it, or a whole component goes."""
    components = space.graph.components(parts[stage].mask)
    for other, ways in space.neighbours(parts, stage).items():
        for downstream in ways:
            for run in _runs(space, parts, stage, other, downstream):
                yield "shift", moved(parts, stage, other, run)
            for run in _runs(space, parts, other, stage, not downstream):
                yield "shift", moved(parts, other, stage, run)
        if len(components) > 1:
            for component in components:
                yield "component", moved(parts, stage, other, component)


def _runs(space: Space, parts: Sequence[Part], source: int, target: int, downstream: bool) -> Iterator[int]:
    """Sets of super-operators that one stage may give to the other."""
    run = space.graph.run(parts[source].mask, parts[target].mask, downstream=downstream)
    lengths = {length for length in RUNS if length <= len(run)}
    if run:
        lengths.add(_levelling(space, parts[source], parts[target], run))
    for length in sorted(lengths):
        yield mask_of(run[:length])


def _levelling(space: Space, source: Part, target: Part, run: Sequence[int]) -> int:
    """How long a run must be for both stages to take about the same time."""
    excess = (space.rough.busy_s(source) - space.rough.busy_s(target)) / 2
    length = 1
    single_s = space.rough.single_s(source)
    for member in run[:-1]:
        excess -= single_s[member] / source.replicas
        if excess <= 0:
            break
        length += 1
    return length


def cascades(space: Space, parts: Sequence[Part], stage: int) -> Iterator[Move]:
    """A stage gives to its neighbour, that to the next, and so on down to one that has time to spare."""
    if len(parts) > FAR:
        return
    busy = [space.rough.busy_s(part) for part in parts]
    came_from, way = {stage: stage}, {stage: True}
    queue = [stage]
    for index in queue:
        for other, ways in space.neighbours(parts, index).items():
            if other not in came_from and len(ways) == 1:
                came_from[other], way[other] = index, ways[0]
                queue.append(other)
    for target in sorted(queue[1:], key=busy.__getitem__)[:4]:
        path = [target]
        while path[-1] != stage:
            path.append(came_from[path[-1]])
        if len(path) < 3:
            continue
        for length in (1, 2, 4):
            changed = list(parts)
            for b, a in itertools.pairwise(path):
                given = mask_of(space.graph.run(parts[a].mask, parts[b].mask, downstream=way[b])[:length])
                changed[a] = changed[a].holding(changed[a].mask & ~given)
                changed[b] = changed[b].holding(changed[b].mask | given)
            if all(part.mask for part in changed):
                yield "cascade", changed


def swaps(space: Space, parts: Sequence[Part], stage: int) -> Iterator[Move]:
    """One of the first two super-operators that might leave, for one of the neighbour's first two."""
    for other, ways in space.neighbours(parts, stage).items():
        for downstream in ways:
            mine = space.graph.run(parts[stage].mask, parts[other].mask, downstream=downstream)[:2]
            theirs = space.graph.run(parts[other].mask, parts[stage].mask, downstream=not downstream)[:2]
            for a, b in itertools.product(mine, theirs):
                changed = list(parts)
                exchanged = 1 << a | 1 << b
                changed[stage] = parts[stage].holding(parts[stage].mask ^ exchanged)
                changed[other] = parts[other].holding(parts[other].mask ^ exchanged)
                yield "swap", changed
