"""Maximum flow by shortest augmenting paths, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit


class Network(NamedTuple):
    """Room for one flow problem: arcs in pairs (an arc and its reverse), a linked list per node."""

    head: Ints
    """[nodes] the first arc that leaves each, -1 for none"""
    following: Ints
    """[arcs] the next arc that leaves the same node, -1 for none"""
    to: Ints
    """[arcs] where each leads; arc ^ 1 is its reverse"""
    room: Floats
    """[arcs] s that it still takes"""
    last_arc: Ints
    """[nodes] the arc that a shortest path arrives by"""
    queue: Ints
    """[nodes] those reached, in their order"""
    node_of: Ints
    """[operators] the node of each, -1 for none"""


@njit(cache=True)
def join(net: Network, arcs: int, a: int, b: int, forth: float, back: float) -> int:
    """Add an arc from a to b and one back; the number of arcs."""
    net.to[arcs], net.room[arcs], net.following[arcs] = b, forth, net.head[a]
    net.head[a] = arcs
    net.to[arcs + 1], net.room[arcs + 1], net.following[arcs + 1] = a, back, net.head[b]
    net.head[b] = arcs + 1
    return arcs + 2


@njit(cache=True)
def flow(net: Network, nodes: int, least: float) -> float:
    """Augment along shortest paths from node 0 to node 1 while one carries more than ``least``.

    The flow is at most the cut whenever this stops.
    """
    total = 0.0
    while True:
        net.last_arc[:nodes] = -1
        net.last_arc[0] = -2
        net.queue[0] = 0
        first, count = 0, 1
        while first < count and net.last_arc[1] == -1:
            node = net.queue[first]
            first += 1
            arc = net.head[node]
            while arc >= 0:
                target = net.to[arc]
                if net.room[arc] > least and net.last_arc[target] == -1:
                    net.last_arc[target] = arc
                    net.queue[count] = target
                    count += 1
                arc = net.following[arc]
        if net.last_arc[1] == -1:
            return total
        most = np.inf
        node = 1
        while node != 0:
            arc = net.last_arc[node]
            most = min(most, net.room[arc])
            node = net.to[arc ^ 1]
        node = 1
        while node != 0:
            arc = net.last_arc[node]
            net.room[arc] -= most
            net.room[arc ^ 1] += most
            node = net.to[arc ^ 1]
        total += most
