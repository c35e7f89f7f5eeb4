"""Where `solvers.schedules.nodes.mapping_kernel` starts from: whole stages in nodes that have room for them.

mutual: what two seats exchange, [seats, seats]. start: stage s has the seats start[s]:start[s + 1], empty
ones follow. order: of the stages. room: devices of each node. node_of: is filled with the node of each seat.
"""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit


@njit(cache=True)
def pack(mutual: Floats, start: Ints, order: Ints, room: Ints, node_of: Ints) -> None:
    """Stage by stage: each in the node that pulls it most of those it fits into (the fullest, if none pulls
    more), one that fits nowhere in the emptiest nodes."""
    left = room.copy()
    placed = np.zeros(len(node_of), np.bool_)
    for s in order:
        first, last = start[s], start[s + 1]
        chosen = -1
        most = 0.0
        for k in range(len(room)):
            if left[k] < last - first:
                continue
            pull = 0.0
            for v in range(start[-1]):
                if placed[v] and node_of[v] == k:
                    for u in range(first, last):
                        pull += mutual[u, v]
            if chosen < 0 or pull > most or (pull == most and left[k] < left[chosen]):
                chosen, most = k, pull
        for u in range(first, last):
            if chosen < 0 or left[chosen] == 0:
                chosen = int(np.argmax(left))
            node_of[u] = chosen
            placed[u] = True
            left[chosen] -= 1
    _fill(start[-1], len(node_of), left, node_of)


@njit(cache=True)
def grow(mutual: Floats, start: Ints, order: Ints, room: Ints, node_of: Ints) -> None:
    """Node by node: always the stage that its stages pull most of those that fit into what is left, then the
    next node; stages that fitted nowhere last."""
    stages = len(start) - 1
    left = room.copy()
    placed = np.zeros(stages, np.bool_)
    for k in range(len(room)):
        pull = np.zeros(stages)
        while True:
            chosen = -1
            for s in order:
                if not placed[s] and start[s + 1] - start[s] <= left[k] and (chosen < 0 or pull[s] > pull[chosen]):
                    chosen = s
            if chosen < 0:
                break
            placed[chosen] = True
            left[k] -= start[chosen + 1] - start[chosen]
            for u in range(start[chosen], start[chosen + 1]):
                node_of[u] = k
                for s in range(stages):
                    for v in range(start[s], start[s + 1]):
                        pull[s] += mutual[u, v]
    for s in order:
        if not placed[s]:
            _fill(start[s], start[s + 1], left, node_of)
    _fill(start[-1], len(node_of), left, node_of)


@njit(cache=True)
def _fill(first: int, last: int, left: Ints, node_of: Ints) -> None:
    """Seats first:last in the nodes that have room left, lowest first."""
    k = 0
    for u in range(first, last):
        while left[k] == 0:
            k += 1
        node_of[u] = k
        left[k] -= 1
