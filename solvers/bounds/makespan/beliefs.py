"""What is known of all plans no longer than some makespan: which groups share a device, which do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.bounds.makespan.shape import PassShape
from solvers.kernels.arrays import Floats, Ints

Flags = NDArray[np.uint8]


class Contradiction(Exception):
    """No plan is as short as assumed."""


@dataclass
class Beliefs:
    """What is known of plans no longer than some makespan.

    cluster: [operators], the cluster of each, named by one of its groups. loose: [groups], also 1 for names
    that are no longer used. apart: [groups, groups], 1 for clusters that never share a device. held, load:
    [groups], bytes and least seconds of clusters. head, tail: [operators]. news: joined or parted since these
    were computed.
    """

    cluster: Ints
    loose: Flags
    apart: Flags
    held: Floats
    load: Floats
    head: Floats
    tail: Floats
    news: int = 0

    def copy(self) -> Beliefs:
        """One that can be changed by itself."""
        return Beliefs(
            self.cluster.copy(), self.loose.copy(), self.apart.copy(), self.held.copy(), self.load.copy(),
            self.head.copy(), self.tail.copy(), self.news,
        )  # fmt: skip

    def join(self, a: int, b: int) -> None:
        """Clusters a and b share a device: b becomes part of a. Raises Contradiction if they cannot."""
        if self.apart[a, b]:
            raise Contradiction
        self.cluster[self.cluster == b] = a
        self.apart[a] |= self.apart[b]
        self.apart[:, a] |= self.apart[:, b]
        self.apart[b] = 0
        self.apart[:, b] = 0
        self.loose[b] = 1
        self.held[a] += self.held[b]
        self.load[a] += self.load[b]
        self.held[b] = self.load[b] = 0.0
        self.news += 1

    def part(self, a: int, b: int) -> None:
        """Clusters a and b do not share a device. Raises Contradiction if they are the same."""
        if a == b:
            raise Contradiction
        self.apart[a, b] = self.apart[b, a] = 1
        self.news += 1

    def clusters(self) -> Ints:
        """The clusters that have a device, the longest first."""
        alive = np.flatnonzero(self.loose == 0)
        return alive[np.argsort(-self.load[alive], kind="stable")]


def beliefs(shape: PassShape) -> Beliefs:
    """What holds of every plan."""
    load = np.zeros(shape.groups)
    np.add.at(load, shape.group, shape.least_s)
    none = np.zeros(shape.operators)
    apart = np.zeros((shape.groups, shape.groups), np.uint8)
    rows, kind = np.unique(shape.allowed, axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    meet = (rows.astype(np.int64) @ rows.T.astype(np.int64)) > 0
    if not meet.all():
        apart[:] = ~meet[kind][:, kind]
        apart[shape.loose > 0] = 0
        apart[:, shape.loose > 0] = 0
    found = Beliefs(shape.group.copy(), shape.loose.copy(), apart, shape.held.copy(), load, none, none.copy())
    home: dict[int, int] = {}
    for group in np.flatnonzero((shape.allowed.sum(axis=1) == 1) & (shape.loose == 0)).tolist():
        first = home.setdefault(int(shape.allowed[group].argmax()), group)
        if first != group:
            found.join(first, group)
    return found
