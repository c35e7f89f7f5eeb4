"""What is known of all plans no longer than some makespan: which groups share a device, which do not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from solvers.bounds.makespan.arrays import Clusters
from solvers.bounds.makespan.shape import PassShape
from solvers.kernels.arrays import Floats, Ints


class Contradiction(Exception):
    """No plan is as short as assumed."""


@dataclass
class Colocation:
    """Clusters of operators that share a device in all plans no longer than some makespan.

    clusters: named by one of their groups. load: [groups], least seconds of each. head, tail: [operators], seconds
    before and after each. changes: clusters merged or separated since these were computed.
    """

    clusters: Clusters
    load: Floats
    head: Floats
    tail: Floats
    changes: int = 0

    def copy(self) -> Colocation:
        """One that can be changed by itself."""
        of, copyable, separate, held = self.clusters
        clusters = Clusters(of.copy(), copyable.copy(), separate.copy(), held.copy())
        return replace(self, clusters=clusters, load=self.load.copy(), head=self.head.copy(), tail=self.tail.copy())

    def merge(self, a: int, b: int) -> None:
        """Clusters a and b share a device: b becomes part of a. Raises Contradiction if they cannot."""
        of, copyable, separate, held = self.clusters
        if separate[a, b]:
            raise Contradiction
        of[of == b] = a
        separate[a] |= separate[b]
        separate[:, a] |= separate[:, b]
        separate[b] = 0
        separate[:, b] = 0
        copyable[b] = 1
        for amount in (held, self.load):
            amount[a] += amount[b]
            amount[b] = 0.0
        self.changes += 1

    def separate(self, a: int, b: int) -> None:
        """Clusters a and b do not share a device. Raises Contradiction if they are the same."""
        if a == b:
            raise Contradiction
        self.clusters.separate[a, b] = self.clusters.separate[b, a] = 1
        self.changes += 1

    def longest_first(self) -> Ints:
        """The clusters that have a device, by their seconds."""
        alive = np.flatnonzero(self.clusters.copyable == 0)
        return alive[np.argsort(-self.load[alive], kind="stable")]


def colocation_of(shape: PassShape) -> Colocation:
    """What holds of every plan."""
    load = np.zeros(shape.groups)
    np.add.at(load, shape.group, shape.least_s)
    separate = np.zeros((shape.groups, shape.groups), np.uint8)
    rows, kind = np.unique(shape.allowed, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    meet = (rows.astype(np.int64) @ rows.T.astype(np.int64)) > 0
    if not meet.all():
        separate[:] = ~meet[kind][:, kind]
        separate[shape.copyable > 0] = 0
        separate[:, shape.copyable > 0] = 0
    clusters = Clusters(shape.group.copy(), shape.copyable.copy(), separate, shape.held.copy())
    known = Colocation(clusters, load, np.zeros(shape.operators), np.zeros(shape.operators))
    home: dict[int, int] = {}  # device -> the first group that may be nowhere else
    for group in np.flatnonzero((shape.allowed.sum(axis=1) == 1) & (shape.copyable == 0)).tolist():
        first = home.setdefault(int(shape.allowed[group].argmax()), group)
        if first != group:
            known.merge(first, group)
    return known
