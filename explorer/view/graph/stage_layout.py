"""Where the stages of a DAG are drawn: a column by depth, a lane by neighbours, so that branches are rows."""

from __future__ import annotations

from collections.abc import Sequence

SWEEPS = 6


def stage_columns(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The column of each stage, sinks in the last one: as far from the right as the longest path to a
    sink. Edges that close a cycle are left out."""
    after = _acyclic(count, edges)
    depth = [0] * count
    for stage in reversed(_order(count, after)):
        depth[stage] = 1 + max((depth[target] for target in after[stage]), default=0)
    deepest = max(depth, default=0)
    return [deepest - d for d in depth]


def stage_lanes(columns: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[float]:
    """The vertical place of each stage, at least 1 apart in a column, the least of all 0: in line with its
    neighbours where there is room, in the order that crosses least (by barycentre)."""
    near: list[list[int]] = [[] for _ in columns]
    for source, target in edges:
        if columns[source] != columns[target]:
            near[source].append(target)
            near[target].append(source)
    members: dict[int, list[int]] = {}
    for stage, column in enumerate(columns):
        members.setdefault(column, []).append(stage)
    lane = [0.0] * len(columns)
    for group in members.values():
        for i, stage in enumerate(group):
            lane[stage] = i - (len(group) - 1) / 2
    for sweep in range(SWEEPS):
        for column in sorted(members, reverse=sweep % 2 == 1):
            group = members[column]
            wanted = {s: sum(lane[n] for n in near[s]) / len(near[s]) if near[s] else lane[s] for s in group}
            group.sort(key=lambda s: (wanted[s], lane[s]))
            for stage, place in zip(group, _spaced([wanted[s] for s in group]), strict=True):
                lane[stage] = place
    least = min(lane, default=0.0)
    return [round(place - least, 3) for place in lane]


def _spaced(wanted: Sequence[float]) -> list[float]:
    """The ascending places at least 1 apart that are nearest to ``wanted``, by least squares: what is too
    close is pooled (pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for i, place in enumerate(wanted):
        total, size = place - i, 1
        while pools and pools[-1][0] / pools[-1][1] > total / size:
            before, many = pools.pop()
            total, size = total + before, size + many
        pools.append((total, size))
    places: list[float] = []
    for total, size in pools:
        for _ in range(size):
            places.append(total / size + len(places))
    return places


def _acyclic(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Successors, without the edges that lead back to a stage on the way (by depth-first search)."""
    raw: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        if source != target:
            raw[source].append(target)
    after: list[list[int]] = [[] for _ in range(count)]
    state = [0] * count
    for root in range(count):
        if state[root]:
            continue
        state[root] = 1
        path = [(root, iter(raw[root]))]
        while path:
            stage, targets = path[-1]
            for target in targets:
                if state[target] == 1:
                    continue
                after[stage].append(target)
                if state[target] == 0:
                    state[target] = 1
                    path.append((target, iter(raw[target])))
                    break
            else:
                state[stage] = 2
                path.pop()
    return after


def _order(count: int, after: Sequence[Sequence[int]]) -> list[int]:
    waiting = [0] * count
    for targets in after:
        for target in targets:
            waiting[target] += 1
    order = [stage for stage in range(count) if waiting[stage] == 0]
    for stage in order:
        for target in after[stage]:
            waiting[target] -= 1
            if waiting[target] == 0:
                order.append(target)
    return order
