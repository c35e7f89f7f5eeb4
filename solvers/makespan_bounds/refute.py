"""Whether a makespan can be ruled out: what must share a device, and what cannot, until nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.anchored_paths import FREE, WITH, around
from solvers.kernels.one_machine import longest_span, shared_span
from solvers.makespan_bounds.quick import ends
from solvers.makespan_bounds.shape import ROUNDING, PassShape
from solvers.makespan_bounds.shared_load import prices

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.uint8]

THRESHOLDS = 200


class Spent(Exception):
    """The effort allowed is used up."""


class Contradiction(Exception):
    """No plan is as short as assumed."""


@dataclass
class Effort:
    """How much may be done, in arcs looked at, and a callable that may raise to stop."""

    arcs: float
    check: Callable[[], None]

    def spend(self, arcs: float) -> None:
        """Raises Spent if there is no more."""
        self.check()
        self.arcs -= arcs
        if self.arcs < 0:
            raise Spent


@dataclass
class Beliefs:
    """What is known of plans no longer than some makespan.

    cluster: [operators], the cluster of each, named by one of its groups. loose: [groups], also 1 for names
    that are no longer used. apart: [groups, groups], 1 for clusters that never share a device. held, load:
    [groups], bytes and least seconds of clusters. head, tail: [operators].
    """

    cluster: Ints
    loose: Flags
    apart: Flags
    held: Floats
    load: Floats
    head: Floats
    tail: Floats

    def copy(self) -> Beliefs:
        """One that can be changed by itself."""
        return Beliefs(
            self.cluster.copy(), self.loose.copy(), self.apart.copy(), self.held.copy(), self.load.copy(),
            self.head.copy(), self.tail.copy(),
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

    def part(self, a: int, b: int) -> None:
        """Clusters a and b do not share a device. Raises Contradiction if they are the same."""
        if a == b:
            raise Contradiction
        self.apart[a, b] = self.apart[b, a] = 1

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
    return Beliefs(shape.group.copy(), shape.loose.copy(), apart, shape.held.copy(), load, none, none.copy())


@dataclass
class Refuter:
    """Rules out makespans of one pass. window: as in `delayed_heads`; anchors: clusters looked around at every
    node below the root."""

    shape: PassShape
    effort: Effort
    window: int = 1024
    anchors: int = 4
    nodes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        shape = self.shape
        with np.errstate(invalid="ignore"):
            self.each = np.where(shape.allowed[shape.group], shape.seconds * prices(shape).per_second, np.inf).min(
                axis=1
            )
        self.cap = float(shape.caps.max()) * (1 + ROUNDING)
        self.devices = shape.seconds.shape[1]
        self.room = np.empty((shape.operators, 2)), np.empty((shape.operators, 2))

    def refutes(self, limit_s: float, start: Beliefs) -> bool:
        """Whether no plan as short as ``limit_s`` exists; False may also mean that effort is spent."""
        try:
            return self._refutes(limit_s, start.copy(), None)
        except Spent:
            return False

    def _refutes(self, limit: float, known: Beliefs, anchors: int | None) -> bool:
        self.nodes += 1
        try:
            self.propagate(limit, known, anchors)
        except Contradiction:
            return True
        pair = self._branch(known)
        if pair is None:
            return False
        a, b = pair
        for together in (True, False):
            child = known.copy()
            try:
                if together:
                    child.join(a, b)
                else:
                    child.part(a, b)
            except Contradiction:
                continue
            if not self._refutes(limit, child, self.anchors):
                return False
        return True

    def _branch(self, known: Beliefs) -> tuple[int, int] | None:
        """The longest cluster, and the longest other of which nothing is known beside it."""
        clusters = known.clusters()
        for i, a in enumerate(clusters[: self.devices - 1]):
            for b in clusters[i + 1 :]:
                if not known.apart[a, b]:
                    return int(a), int(b)
        return None

    def propagate(self, limit: float, known: Beliefs, anchors: int | None) -> None:
        """Draw conclusions until there are no more. Raises Contradiction, and Spent."""
        shape = self.shape
        while True:
            found = ends(shape, known.cluster, known.loose, known.apart, self.window, known.head, known.tail)
            known.head, known.tail = found.head, found.tail
            self.effort.spend(found.visited)
            self._test(limit, known)
            if not shape.one_by_one:
                return
            if not self._look_around(limit, known, anchors):
                return

    def _test(self, limit: float, known: Beliefs) -> None:
        shape = self.shape
        if (
            float((known.head + shape.least_s + known.tail).max()) > limit
            or float(known.held.max()) > self.cap
            or (
                shape.one_by_one
                and longest_span(known.cluster, known.loose, known.head, shape.least_s, known.tail) > limit
            )
            or shared_span(known.head, self.each, known.tail, THRESHOLDS) > limit
        ):
            raise Contradiction

    def _look_around(self, limit: float, known: Beliefs, anchors: int | None) -> bool:
        """Whether something was learnt from what must be with each cluster."""
        shape, (head, tail) = self.shape, self.room
        forth, back = shape.forth, shape.back
        learnt = False
        for anchor in known.clusters()[:anchors].tolist():
            if known.loose[anchor]:
                continue  # joined to another meanwhile
            where = np.full(shape.groups, FREE, np.int64)
            rounds = around(
                limit, anchor, shape.least_s, known.cluster, known.loose, known.apart, known.held, self.cap,
                self.devices - 1, forth.in_start, forth.in_from, forth.in_delay, back.in_start, back.in_from,
                back.in_delay, known.head, known.tail[::-1].copy(), where, head, tail,
            )  # fmt: skip
            self.effort.spend(4.0 * abs(rounds) * forth.count)
            if rounds < 0:
                raise Contradiction
            for other in np.flatnonzero(where != FREE).tolist():
                if other == anchor or known.loose[other]:
                    continue
                if where[other] == WITH:
                    known.join(anchor, other)
                    learnt = True
                elif not known.apart[anchor, other]:
                    known.part(anchor, other)
                    learnt = True
            if self.devices == 2:
                learnt |= self._join_all(known, np.flatnonzero(known.apart[anchor]))
        return learnt

    def _join_all(self, known: Beliefs, clusters: Ints) -> bool:
        """Join clusters that are all on the one other device."""
        for other in clusters[1:].tolist():
            known.join(int(clusters[0]), other)
        return len(clusters) > 1
