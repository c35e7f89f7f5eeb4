"""Who shares a node: swaps that lessen what crosses between nodes (Kernighan and Lin, 1970).

Every device of the cluster holds one seat: seats are replicas of stages first, then empty ones, so that every
move is a swap and no node ever holds more than it has devices. weight[u, v]: bytes u sends to v; mutual:
what either sends to the other, [seats, seats], 0 for empty seats. node_of: the node of each seat.
"""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit
from solvers.schedules.nodes.starts_kernel import grow, pack

BETTER = 1e-9
"""Relative improvement that counts: less is rounding."""
BUSIEST = 1e-3
"""Weight of the bytes on the busiest wire. Wires work at the same time and the last to be done is waited for: of
mappings with as many bytes the one that spreads them better is taken."""
PATIENCE = 8
"""Swaps without a new best after which a run of swaps ends: enough to exchange the replicas of a stage."""


@njit(cache=True)
def price(weight: Floats, node_of: Ints, nodes: int) -> float:
    """Bytes between nodes, and once more `BUSIEST` times those on the busiest wire between two of them."""
    wires = np.zeros((nodes, nodes))
    for u in range(len(node_of)):
        for v in range(len(node_of)):
            wires[node_of[u], node_of[v]] += weight[u, v]
    total = busiest = 0.0
    for a in range(nodes):
        for b in range(nodes):
            if a != b:
                total += wires[a, b]
                busiest = max(busiest, wires[a, b])
    return total + BUSIEST * busiest


@njit(cache=True)
def _pulls(mutual: Floats, node_of: Ints, nodes: int) -> Floats:
    """What each seat exchanges with each node, [seats, nodes]."""
    pull = np.zeros((len(node_of), nodes))
    for u in range(len(node_of)):
        for v in range(len(node_of)):
            pull[u, node_of[v]] += mutual[u, v]
    return pull


@njit(cache=True)
def _swap(mutual: Floats, node_of: Ints, pull: Floats, u: int, v: int) -> None:
    a, b = node_of[u], node_of[v]
    for x in range(len(node_of)):
        moved = mutual[x, u] - mutual[x, v]
        pull[x, a] -= moved
        pull[x, b] += moved
    node_of[u], node_of[v] = b, a


@njit(cache=True)
def descend(mutual: Floats, node_of: Ints, nodes: int, taken: int, work: Ints) -> None:
    """Runs of best swaps, in each of which a seat moves once, kept up to their best point, until none gains.

    taken: seats that are not empty. work[0] is lessened by the pairs looked at; ends when it is used up.
    """
    seats = len(node_of)
    pull = _pulls(mutual, node_of, nodes)
    scale = mutual.sum()
    swaps = np.empty((seats, 2), np.int64)
    while True:
        moved = np.zeros(seats, np.bool_)
        gained = best = 0.0
        count = best_count = 0
        while count < best_count + PATIENCE and work[0] > 0:
            chosen, most = -1, -np.inf
            other = -1
            for u in range(taken):
                if moved[u]:
                    continue
                a = node_of[u]
                for v in range(u + 1, seats):
                    b = node_of[v]
                    if moved[v] or b == a:
                        continue
                    gain = pull[u, b] - pull[u, a] + pull[v, a] - pull[v, b] - 2 * mutual[u, v]
                    if gain > most:
                        most, chosen, other = gain, u, v
            work[0] -= taken * seats // 2
            if chosen < 0:
                break
            _swap(mutual, node_of, pull, chosen, other)
            moved[chosen] = moved[other] = True
            swaps[count, 0], swaps[count, 1] = chosen, other
            count += 1
            gained += most
            if gained > best + BETTER * scale:
                best, best_count = gained, count
        for i in range(count - 1, best_count - 1, -1):
            _swap(mutual, node_of, pull, swaps[i, 0], swaps[i, 1])
        if best_count == 0 or work[0] <= 0:
            return


@njit(cache=True)
def _shake(node_of: Ints, start: Ints, taken: int, state: int) -> int:
    """Swap a random stage's seats of one node for random seats of another; the next state."""
    seats = len(node_of)
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    u = (state >> 8) % taken
    state = (state * 1103515245 + 12345) & 0x7FFFFFFF
    v = (state >> 8) % seats
    a, b = node_of[u], node_of[v]
    if a == b:
        return state
    s = int(np.searchsorted(start, u, "right")) - 1
    at = v
    for x in range(start[s], start[s + 1]):
        if node_of[x] != a:
            continue
        for step in range(seats):  # the seat after the last one exchanged that is in the other node
            y = (at + step) % seats
            if node_of[y] == b and not start[s] <= y < start[s + 1]:
                node_of[x], node_of[y] = b, a
                at = (y + 1) % seats
                break
    return state


@njit(cache=True)
def map_to_nodes(weight: Floats, start: Ints, in_order: Ints, rounds: int, most_work: int) -> Ints:
    """The node of every seat, for the least `price`.

    start: stage s has the seats start[s]:start[s + 1]. in_order: the nodes of the devices, and of the seats where
    no other way is better. rounds: shakes without success after which the search ends. most_work: pairs of seats
    it looks at.
    """
    nodes, stages = in_order.max() + 1, len(start) - 1
    mutual = weight + weight.T
    room = np.bincount(in_order, minlength=nodes)
    best = in_order.copy()
    least = price(weight, best, nodes)
    better = BETTER * weight.sum()
    work = np.array([most_work])
    current = best.copy()
    largest_first = np.argsort(start[:-1] - start[1:], kind="mergesort")
    tries = attempt = 0
    state = 1
    while tries < rounds and least > 0 and work[0] > 0:
        order = np.arange(stages) if attempt % 2 else largest_first
        if 1 <= attempt <= 2:
            pack(mutual, start, order, room, current)
        elif 3 <= attempt <= 4:
            grow(mutual, start, order, room, current)
        elif attempt > 4:
            tries += 1
            current[:] = best
            for _ in range(1 + tries % 3):
                state = _shake(current, start, start[stages], state)
        attempt += 1
        descend(mutual, current, nodes, start[stages], work)
        candidate = price(weight, current, nodes)
        if candidate < least - better:
            least = candidate
            tries = 0
            best[:] = current
    return best
