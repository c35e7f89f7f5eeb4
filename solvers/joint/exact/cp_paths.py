"""What paths and work say about the makespan of tasks in whole units; for `solvers.joint.exact.cp_program`."""

from __future__ import annotations

from typing import Any

Message = dict[str, Any]
Pair = tuple[int, int]

ROWS = 12
"""Rows that state the work between a head and a tail, the strongest ones."""


def heaviest(given: Message) -> list[int]:
    """Groups, those with most work first."""
    work = [0] * len(given["allowed"])
    for i, row in enumerate(given["seconds"]):
        work[given["group_of"][i]] += min(t for t in row if t is not None)
    return sorted(range(len(work)), key=lambda g: -work[g])


def between(least: list[int], edges: list[Pair], devices: int) -> list[tuple[int, int, list[int]]]:
    """(head, tail, tasks that must run between them), the ones that say most about the makespan first."""
    count = len(least)
    head, tail = heads_and_tails(least, edges)
    found: dict[tuple[int, ...], tuple[float, int, int]] = {}
    for a in sorted(set(head)):
        late = sorted((i for i in range(count) if head[i] >= a), key=lambda i: -tail[i])
        work = 0
        for k, i in enumerate(late):
            work += least[i]
            if k + 1 < len(late) and tail[late[k + 1]] == tail[i]:
                continue
            key = tuple(sorted(late[: k + 1]))
            value = a + work / devices + tail[i]
            if value > found.get(key, (0.0, 0, 0))[0]:
                found[key] = (value, a, tail[i])
    best = sorted(found, key=lambda key: -found[key][0])[:ROWS]
    return [(found[key][1], found[key][2], list(key)) for key in best]


def heads_and_tails(least: list[int], edges: list[Pair]) -> tuple[list[int], list[int]]:
    """Longest paths that end just before every task, and that begin just after it."""
    after: list[list[int]] = [[] for _ in least]
    before: list[list[int]] = [[] for _ in least]
    for u, v in edges:
        after[u].append(v)
        before[v].append(u)
    return _longest(before, after, least), _longest(after, before, least)


def _longest(before: list[list[int]], after: list[list[int]], least: list[int]) -> list[int]:
    """Longest path that ends just before every task."""
    waiting = [len(sources) for sources in before]
    ready = [i for i, n in enumerate(waiting) if n == 0]
    longest = [0] * len(least)
    while ready:
        i = ready.pop()
        for j in after[i]:
            longest[j] = max(longest[j], longest[i] + least[i])
            waiting[j] -= 1
            if waiting[j] == 0:
                ready.append(j)
    return longest
