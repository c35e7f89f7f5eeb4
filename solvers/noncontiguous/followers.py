"""Super-operators that may as well be where a neighbour is: fewer placements to tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def leaders(nets: Mapping[tuple[int, ...], float], acc_s: NDArray[np.float64], free: NDArray[np.bool_]) -> list[int]:
    """Super-operator -> the neighbour it may follow to any accelerator, or itself.

    If the message between a and b takes at least as long as a's own work and all messages that a has
    with others together, then taking a to b's accelerator makes no load larger, wherever the others
    are: b's device saves the message and pays at most the rest, and a's device pays at most the rest
    less. nets: their seconds (a device pays where its set splits one; transfers add to compute).
    acc_s: seconds of every super-operator; free: whether it may go to any accelerator. Nobody follows
    in a cycle, so all can follow at once.
    """
    on: list[list[tuple[tuple[int, ...], float]]] = [[] for _ in acc_s]
    for pins, seconds in nets.items():
        for pin in pins:
            on[pin].append((pins, seconds))
    leader = list(range(len(acc_s)))
    for pins, seconds in nets.items():
        for a, b in (pins, pins[::-1]) if len(pins) == 2 else ():
            if not free[a] or leader[a] != a:
                continue
            others = sum(other_s for net, other_s in on[a] if b not in net)
            if seconds >= acc_s[a] + others and _head(leader, b) != a:
                leader[a] = b
    return leader


def by_leader(leader: Sequence[int]) -> list[int]:
    """All super-operators, each after the one it follows."""
    depth = [0] * len(leader)
    for a in range(len(leader)):
        node = a
        while leader[node] != node:
            node = leader[node]
            depth[a] += 1
    return sorted(range(len(leader)), key=depth.__getitem__)


def _head(leader: Sequence[int], node: int) -> int:
    while leader[node] != node:
        node = leader[node]
    return node
