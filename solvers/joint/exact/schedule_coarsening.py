"""Fewer operators to schedule: clusters joined along edges so that the graph stays acyclic.

Joining u and v is safe if the edge u -> v is the only path between them, as it is where v's level, the length
of its longest path from a source, is one more than u's. Several such pairs are joined at once if no edge leads from
the upper end of one to the lower end of another: in a cycle of joined pairs every edge would lead one level
up and every step inside a pair one down, so each edge would be such an edge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solvers.joint.passes.clusters import Clusters, clustered
from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Floats
from solvers.problem.graph import Phase
from solvers.problem.ties import Ties

TARGET = 200
"""Clusters to stop at."""
MOST_SHARE = 1 / 60
"""Most of all work that joining may put in one cluster, if there are to be many; without a cap a few would get most
of it."""
MOST_MEANS = 2.0
"""The same where there are to be few: times the mean work of a cluster."""
ROUND_SHARE = 0.5
"""Share of the clusters still to be joined that one round joins: weights change as clusters grow."""
SPARE = 1.25
"""What a unit may have, in multiples of its largest group: others may join one that fills it, where weights are
shared by many operators, say."""
HARMLESS = 0.02
"""How much longer a path may get, in mean works of a cluster, without counting as longer."""
NEAR = 1.25
"""Times the target that are near enough."""
LONGER = 1.1
"""How much longer than the operators' own (or than an equal share of all work) paths through clusters may get,
each looked at by itself: a cluster starts when all its inputs are there, so joining can put
one after the other what could run at once."""
LOOSER = 1.3
"""By how much units and paths may grow where joining ends far from the target: operators that take turns between
units are never joined, and recurrent cells, which share weights over all steps, take many turns."""

Edges = Mapping[tuple[int, int], float]
"""(cluster, cluster after it) -> seconds of what the one sends the other."""


def coarsened(model: PassModel, target: int = TARGET, check: Callable[[], None] = lambda: None) -> Clusters:
    """About ``target`` clusters of the model's operators, more where the caps allow no fewer.

    No cluster of several operators has more work than `cluster_cap_s`, no unit more than its share of work and
    of memory, and no groups are tied that may not run on the same devices. Pairs come first that make no path
    longer, of these those that share a device already (so the backward operators are joined as the forward ones
    were), then those with the most seconds of transfer, less what they lengthen paths, / sqrt(1 + work).
    ``check`` is called often.
    """
    load = model.mean_s
    cap_s = cluster_cap_s(float(load.sum()), target)
    edges, group_of = edges_of(model), model.group_of.tolist()
    total_s = float(load.sum())
    of_groups = np.bincount(model.group_of, load)
    largest_share = max(1 / model.devices, float(of_groups.max()) / total_s) if total_s > 0 else 1.0
    share = _unit_share(model, cap_s)
    path_s = LONGER * max(total_s / model.devices, _critical_s(model, load))
    while True:
        units = _units(model, share)
        label = joined(edges, load.tolist(), group_of, units, target, cap_s, path_s, check)
        if len(set(label)) <= NEAR * target or (share >= largest_share and path_s >= total_s):
            return clustered(model, label)
        share, path_s = min(LOOSER * share, largest_share), LOOSER * path_s


def _critical_s(model: PassModel, load: Floats) -> float:
    """Seconds of the longest path, without transfers."""
    tail = np.zeros(model.operators)
    for operator in reversed(model.order):
        tail[operator] = load[operator] + max((tail[t] for t in model.successors[operator]), default=0.0)
    return float(tail.max(initial=0.0))


def cluster_cap_s(total_s: float, target: int) -> float:
    """Most seconds of work in a cluster of several operators."""
    return total_s * max(MOST_SHARE, MOST_MEANS / max(1, target))


def edges_of(model: PassModel) -> dict[tuple[int, int], float]:
    """Edges between operators, and the mean seconds of what is sent along them."""
    edges = {(u, v): 0.0 for u in model.order for v in model.successors[u]}
    for message, seconds in zip(model.messages, model.mean_transfer_s.tolist(), strict=True):
        for producer in message.producers:
            for reader in message.readers:
                edges[producer, reader] += seconds
    return edges


@dataclass(slots=True)
class Units:
    """What may be tied to one device: groups of one ``kind`` whose work and bytes stay below the caps, or, where
    one group alone comes near, below `SPARE` times its own.

    load, nbytes, kind: of every group; of what is tied, at the root. most: (work, bytes). largest: [groups] the
    (work, bytes) of the largest group tied, at the root.
    """

    ties: Ties
    load: list[float]
    nbytes: list[float]
    kind: list[int]
    most: tuple[float, float]
    largest: list[tuple[float, float]]

    def may_tie(self, one: int, other: int) -> bool:
        """Whether two roots may become one unit."""
        if self.kind[one] != self.kind[other]:
            return False
        (load, nbytes), (most_load, most_bytes) = self._larger(one, other), self.most
        return (
            self.load[one] + self.load[other] <= max(most_load, SPARE * load)
            and self.nbytes[one] + self.nbytes[other] <= max(most_bytes, SPARE * nbytes)
        )  # fmt: skip

    def tie(self, one: int, other: int) -> int:
        """Make two roots one unit; its root."""
        root = self.ties.tie(one, other)
        away = other if root == one else one
        self.largest[root] = self._larger(one, other)
        self.load[root] += self.load[away]
        self.nbytes[root] += self.nbytes[away]
        return root

    def _larger(self, one: int, other: int) -> tuple[float, float]:
        (load, nbytes), (load_too, nbytes_too) = self.largest[one], self.largest[other]
        return max(load, load_too), max(nbytes, nbytes_too)


def units_of(load: list[float], nbytes: list[float], kind: list[int], most: tuple[float, float]) -> Units:
    """Every group a unit of its own."""
    return Units(Ties(len(load)), load, nbytes, kind, most, list(zip(load, nbytes, strict=True)))


def _unit_share(model: PassModel, cap_s: float) -> float:
    """Most of all work in a unit: it has a cluster in each phase, so as many caps as the largest phase has shares."""
    phase = np.array([list(Phase).index(o.phase) for o in model.problem.graph.operators])
    most_s = float(np.bincount(phase, model.mean_s).max(initial=0.0))
    return cap_s / most_s if most_s > 0 else 1.0


def _units(model: PassModel, share: float) -> Units:
    """Every group a unit, to be tied up to a share of all work and of all memory."""
    load = np.bincount(model.group_of, model.mean_s, len(model.groups))
    held = model.held_bytes
    kinds: dict[bytes, int] = {}
    kind = [kinds.setdefault(row.tobytes(), len(kinds)) for row in model.allowed]
    return units_of(load.tolist(), held.tolist(), kind, (float(load.sum()) * share, float(held.sum()) * share))


def joined(
    edges: Edges,
    load: Sequence[float],
    group_of: Sequence[int],
    units: Units,
    target: int,
    cap_s: float,
    path_s: float = math.inf,
    check: Callable[[], None] = lambda: None,
) -> list[int]:
    """A label for every node of an acyclic graph, the same for those that are joined; their quotient is acyclic.

    load: seconds of every node. group_of: the group of every node, tied in ``units`` as nodes are joined.
    path_s: longest path through a pair that is joined, which waits for all that either waits for. Stops at
    ``target`` labels or when no pair may be joined.
    """  # fmt: skip
    count = len(load)
    label = list(range(count))
    load = list(load)
    root = [units.ties.root(group) for group in group_of]
    mean_s = sum(load) / max(1, target)
    edges = dict(edges)
    left = count
    while left > target:
        check()
        most = max(1, math.ceil((left - target) * ROUND_SHARE))
        graph = _Quotient(edges, load)
        pairs = graph.pairs(graph.worthwhile(root, (cap_s, path_s), mean_s), root, units, most)
        if not pairs:
            break
        left -= len(pairs)
        into = {v: u for u, v in pairs}
        for u, v in pairs:
            load[u] += load[v]
        label = [into.get(name, name) for name in label]
        root = [units.ties.root(r) for r in root]
        merged: dict[tuple[int, int], float] = {}
        for (u, v), seconds in edges.items():
            ends = into.get(u, u), into.get(v, v)
            if ends[0] != ends[1]:
                merged[ends] = merged.get(ends, 0.0) + seconds
        edges = merged
    return label


class _Quotient:
    """The acyclic graph of what is joined so far, with when each node begins at the earliest (seconds, without
    transfers) and what must follow its end."""

    def __init__(self, edges: Edges, load: Sequence[float]) -> None:
        self.edges, self.load = edges, load
        self.after: dict[int, list[int]] = {}
        self.before: dict[int, list[int]] = {}
        for u, v in edges:
            self.after.setdefault(u, []).append(v)
            self.before.setdefault(v, []).append(u)
        order, self.level = _levels(self.after, self.before)
        self.begins = dict.fromkeys(order, 0.0)
        for u in order:
            for v in self.after.get(u, ()):
                self.begins[v] = max(self.begins[v], self.begins[u] + load[u])
        self.rest = dict.fromkeys(order, 0.0)
        for v in reversed(order):
            for u in self.before.get(v, ()):
                self.rest[u] = max(self.rest[u], self.rest[v] + load[v])

    def worthwhile(
        self, root: Sequence[int], caps: tuple[float, float], mean_s: float
    ) -> list[tuple[bool, bool, float, int, int]]:
        """Edges whose ends may be joined, as (longer path, other unit, -gain, u, v), the most worthwhile first.

        caps: seconds of work, and of the longest path.
        """
        load, begins, rest = self.load, self.begins, self.rest
        worth = []
        cap_s, path_s = caps
        for (u, v), seconds in self.edges.items():
            both_s = load[u] + load[v]
            if self.level[v] == self.level[u] + 1 and both_s <= cap_s:
                needed = max((begins[w] + load[w] for w in self.before[v] if w != u), default=0.0)
                follows = max((load[w] + rest[w] for w in self.after[u] if w != v), default=0.0)
                path = max(begins[u], needed) + both_s + max(rest[v], follows)
                if path <= path_s:
                    relative = both_s / mean_s if mean_s > 0 else 0.0
                    longer = path - max(begins[u] + load[u] + rest[u], begins[v] + load[v] + rest[v])
                    gain = (seconds - longer) / math.sqrt(1 + relative)
                    worth.append((longer > HARMLESS * mean_s, root[u] != root[v], -gain, u, v))
        return sorted(worth)

    def pairs(
        self, worth: Sequence[tuple[bool, bool, float, int, int]], root: Sequence[int], units: Units, most: int
    ) -> list[tuple[int, int]]:
        """Edges that may be contracted at once without closing a cycle, the first of ``worth`` first; ties their
        units."""
        level = self.level
        upper: set[int] = set()
        lower: set[int] = set()
        fresh: set[int] = set()  # roots tied in this round: once each, so that other phases can follow
        pairs: list[tuple[int, int]] = []
        for *_, u, v in worth:
            if u in upper or u in lower or v in upper or v in lower:
                continue
            if any(w in lower and level[w] == level[v] for w in self.after[u]):
                continue
            if any(w in upper and level[w] == level[u] for w in self.before[v]):
                continue
            one, other = units.ties.root(root[u]), units.ties.root(root[v])
            if one != other:
                if one in fresh or other in fresh or not units.may_tie(one, other):
                    continue
                fresh.add(units.tie(one, other))
            upper.add(u)
            lower.add(v)
            pairs.append((u, v))
            if len(pairs) == most:
                break
        return pairs


def _levels(
    after: Mapping[int, Sequence[int]], before: Mapping[int, Sequence[int]]
) -> tuple[list[int], dict[int, int]]:
    """(nodes with edges in a topological order, edges on the longest path from a source to each)."""
    waiting = {v: len(sources) for v, sources in before.items()}
    order = [u for u in after if u not in before]
    level = dict.fromkeys(order, 0)
    for u in order:
        for v in after.get(u, ()):
            waiting[v] -= 1
            level[v] = max(level.get(v, 0), level[u] + 1)
            if waiting[v] == 0:
                order.append(v)
    return order, level
