"""Clusters of super-operators that communicate much: what annealing moves at once."""

from __future__ import annotations

import random

import numpy as np

from solvers.coarsening.traffic import Rows
from solvers.noncontiguous.set_moves_kernel import Sets

LEVELS = 8
"""Times clusters are joined in pairs."""
LARGEST = 0.7
"""Largest cluster, as a share of an equal part of all work."""
WIDE = 40
"""Ends beyond which a message says little about what belongs together."""


def clusters(sets: Sets, seed: int, tries: int = 3) -> Rows:
    """Clusters of two or more nodes at all levels of ``tries`` heavy-edge agglomerations, each once.

    Pairs with much communication for their work are joined first, with some chance.
    """
    rng = random.Random(seed)
    found: dict[tuple[int, ...], None] = {}
    for _ in range(tries):
        _agglomerate(sets, rng, found)
    return Rows.of(list(found))


def _agglomerate(sets: Sets, rng: random.Random, found: dict[tuple[int, ...], None]) -> None:
    nodes = len(sets.held)
    work = sets.seconds.sum(axis=0)
    least = np.where(sets.allowed.T, work, np.inf).min(axis=0)
    least[np.isinf(least)] = 0.0
    share = float(least.sum()) / len(sets.cap)
    members = [[node] for node in range(nodes)]
    label = list(range(nodes))
    for _ in range(LEVELS):
        if len(members) <= max(4, 2 * len(sets.cap)):
            return
        weight = [float(least[group].sum()) for group in members]
        near: dict[tuple[int, int], float] = {}
        for m, cost in enumerate(sets.message_s.tolist()):
            on = sorted({label[node] for node in sets.on[sets.on_start[m] : sets.on_start[m + 1]].tolist()})
            if not 2 <= len(on) <= WIDE:
                continue
            for i, a in enumerate(on):
                for b in on[i + 1 :]:
                    near[a, b] = near.get((a, b), 0.0) + cost / (len(on) - 1)
        rank = {
            pair: cost * rng.uniform(0.7, 1.3) / (weight[pair[0]] + weight[pair[1]] + 0.05 * share + 1e-30)
            for pair, cost in near.items()
        }
        joined: list[list[int]] = []
        free = [True] * len(members)
        for a, b in sorted(rank, key=lambda pair: -rank[pair]):
            if free[a] and free[b] and weight[a] + weight[b] <= LARGEST * share:
                free[a] = free[b] = False
                joined.append(sorted(members[a] + members[b]))
                found[tuple(joined[-1])] = None
        if not joined:
            return
        members = joined + [group for group, alone in zip(members, free, strict=True) if alone]
        for number, group in enumerate(members):
            for node in group:
                label[node] = number
