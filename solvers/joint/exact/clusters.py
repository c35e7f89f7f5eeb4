"""Operators in clusters that run as one: the small problem that exact methods of placement and order solve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Floats, Ints
from solvers.problem.graph import topological_order


@dataclass(frozen=True, eq=False)
class Transfer:
    """What clusters send as one: messages with the same ends, added up.

    Every device that runs some of ``producers`` sends it, once all of these that it runs are done, once to each
    other device that runs some of ``readers``. producers, readers: clusters, ascending; one that is
    both reads what the others send. seconds: [devices, devices] of one such transfer, 0 on one device, inf
    without a link. messages: of the model.
    """

    producers: tuple[int, ...]
    readers: tuple[int, ...]
    seconds: Floats
    messages: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Clusters:
    """A pass in which clusters of operators take the place of operators.

    A cluster runs without a break on one device: it starts when all its inputs are there and gives its
    outputs at its end. Its position is its topological number: all edges lead upwards. A *unit* is what shares
    a device: clusters tied by the model's groups, since a group may have operators in many clusters (its forward
    and its backward operators, say) and a cluster may hold operators of many groups. So places are chosen
    per unit, and times per cluster. The shortest schedule of clusters bounds nothing unless
    every operator is a cluster of its own (`is_fine`): operators need not wait for what their cluster waits for.

    model: what was clustered. members: operators of every cluster, in an order in which they can run. unit_of:
    [clusters]. unit_of_group: [groups of the model]. seconds: [clusters, devices], inf where it cannot run.
    allowed: [units, devices]. static_bytes: [units], held all the time. held_bytes: [units], an estimate of the
    peak: static bytes and all that is saved for the backward pass. successors, predecessors: clusters,
    ascending. transfers: those that take time between some two devices; the others are told by the
    edges alone. resource: [devices, devices] the link that a transfer occupies, which other pairs may
    share, numbered from 0; -1 on the diagonal and where no link is. one_by_one: [devices].
    """

    model: PassModel
    members: tuple[tuple[int, ...], ...]
    unit_of: Ints
    unit_of_group: Ints
    seconds: Floats
    allowed: NDArray[np.bool_]
    static_bytes: Floats
    held_bytes: Floats
    successors: tuple[tuple[int, ...], ...]
    predecessors: tuple[tuple[int, ...], ...]
    transfers: tuple[Transfer, ...]
    resource: Ints
    one_by_one: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.members)

    @property
    def units(self) -> int:
        return len(self.allowed)

    @property
    def devices(self) -> int:
        return int(self.seconds.shape[1])

    @property
    def is_fine(self) -> bool:
        """Whether every operator is a cluster of its own, and every group a unit."""
        return len(self.members) == self.model.operators and self.units == len(self.model.groups)

    @cached_property
    def cluster_of(self) -> Ints:
        """The cluster of every operator, [operators]."""
        result = np.empty(self.model.operators, np.int64)
        for cluster, operators in enumerate(self.members):
            result[list(operators)] = cluster
        return result

    @cached_property
    def incoming(self) -> tuple[tuple[int, ...], ...]:
        """Transfers that every cluster reads, ascending."""
        read: list[list[int]] = [[] for _ in self.members]
        for number, transfer in enumerate(self.transfers):
            for reader in transfer.readers:
                read[reader].append(number)
        return tuple(tuple(numbers) for numbers in read)

    @cached_property
    def reaches(self) -> NDArray[np.bool_]:
        """[clusters, clusters] whether a path leads from one to the other; not from a cluster to itself."""
        result = np.zeros((len(self), len(self)), bool)
        for cluster in range(len(self) - 1, -1, -1):
            for after in self.successors[cluster]:
                result[cluster] |= result[after]
                result[cluster, after] = True
        return result

    def place_of_groups(self, place: Sequence[int] | Ints) -> Ints:
        """The device of every group of the model where every unit is on the given device."""
        return np.asarray(place, np.int64)[self.unit_of_group]

    def place_of_units(self, place_of_groups: Sequence[int] | Ints) -> Ints | None:
        """The device of every unit where every group is on the given device; None where groups of one unit
        differ."""
        place = np.full(self.units, -1, np.int64)
        for unit, device in zip(self.unit_of_group.tolist(), np.asarray(place_of_groups).tolist(), strict=True):
            if place[unit] not in (-1, device):
                return None
            place[unit] = device
        return place

    def sent_s(self, sent: Iterable[tuple[int, int, int, float]]) -> dict[tuple[int, int, int], float]:
        """When each message of the model starts, by (message, source, destination): with its transfer, told as
        (transfer, source, destination, seconds)."""
        return {(m, src, dst): at for number, src, dst, at in sent for m in self.transfers[number].messages}

    def feeds(self, number: int, reader: int) -> tuple[int, ...]:
        """The producers of a transfer that a reader may have to wait for: all but itself."""
        return tuple(p for p in self.transfers[number].producers if p != reader)


class Ties:
    """Which of ``count`` things are tied together, directly or through others."""

    def __init__(self, count: int) -> None:
        self._next = list(range(count))

    def root(self, one: int) -> int:
        """The same one for all that are tied together."""
        while self._next[one] != one:
            self._next[one] = self._next[self._next[one]]
            one = self._next[one]
        return one

    def tie(self, one: int, other: int) -> int:
        """Tie two things and all that is tied to them; their root, the lower of both."""
        low, high = sorted((self.root(one), self.root(other)))
        self._next[high] = low
        return low


def uncoarsened(model: PassModel) -> Clusters:
    """Every operator as a cluster of its own, every group as a unit: the model itself."""
    return clustered(model, range(model.operators))


def clustered(model: PassModel, label: Sequence[int]) -> Clusters:
    """The operators with the same label as clusters, [operators] -> any number.

    Clusters are numbered in a topological order, equal ones by their first operator in the model's order. Raises
    ValueError if the clusters wait for each other in a circle.
    """
    label = list(label)
    found: dict[int, list[int]] = {}
    for operator in model.order:
        found.setdefault(label[operator], []).append(operator)
    number = {name: i for i, name in enumerate(found)}
    rough = [number[name] for name in label]
    after: list[set[int]] = [set() for _ in found]
    for operator, targets in enumerate(model.successors):
        after[rough[operator]].update(rough[t] for t in targets if rough[t] != rough[operator])
    order = topological_order([sorted(targets) for targets in after])
    if len(order) < len(found):
        raise ValueError("the clusters wait for each other in a circle")
    position = {old: new for new, old in enumerate(order)}
    rows = list(found.values())
    members = tuple(tuple(rows[old]) for old in order)
    successors = tuple(tuple(sorted(position[t] for t in after[old])) for old in order)
    predecessors: list[list[int]] = [[] for _ in members]
    for cluster, targets in enumerate(successors):
        for target in targets:
            predecessors[target].append(cluster)
    cluster_of = np.array([position[r] for r in rough], np.int64)
    unit_of, unit_of_group = _units(model, members)
    units = int(unit_of_group.max(initial=-1)) + 1
    allowed = np.ones((units, model.devices), bool)
    np.logical_and.at(allowed, unit_of_group, model.allowed)
    static = np.bincount(unit_of_group, model.static_bytes, units).astype(np.float64)
    saved = np.bincount(unit_of_group[model.group_of], model.arrays.saved_bytes, units)
    return Clusters(
        model=model,
        members=members,
        unit_of=unit_of,
        unit_of_group=unit_of_group,
        seconds=np.stack([model.seconds[list(operators)].sum(axis=0) for operators in members]),
        allowed=allowed,
        static_bytes=static,
        held_bytes=static + saved,
        successors=successors,
        predecessors=tuple(tuple(sources) for sources in predecessors),
        transfers=_transfers(model, cluster_of),
        resource=_resources(model),
        one_by_one=model.arrays.one_by_one,
    )


def _units(model: PassModel, members: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """(unit of every cluster, unit of every group), numbered by their first cluster."""
    tied = Ties(len(model.groups))
    for operators in members:
        for operator in operators[1:]:
            tied.tie(int(model.group_of[operators[0]]), int(model.group_of[operator]))
    number: dict[int, int] = {}
    roots = [tied.root(int(model.group_of[operators[0]])) for operators in members]
    unit_of = np.array([number.setdefault(root, len(number)) for root in roots], np.int64)
    return unit_of, np.array([number[tied.root(g)] for g in range(len(model.groups))], np.int64)


def _transfers(model: PassModel, cluster_of: Ints) -> tuple[Transfer, ...]:
    """Messages between clusters, those with the same ends as one."""
    devices = range(model.devices)
    same: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for number, message in enumerate(model.messages):
        producers = tuple(sorted({int(cluster_of[p]) for p in message.producers}))
        readers = tuple(sorted({int(cluster_of[r]) for r in message.readers}))
        if len(producers) == 1:  # what stays inside travels nowhere
            readers = tuple(r for r in readers if r != producers[0])
        if readers and any(model.transfer_s(number, s, d) for s in devices for d in devices):
            same.setdefault((producers, readers), []).append(number)
    return tuple(
        Transfer(
            producers,
            readers,
            np.array([[sum(model.transfer_s(m, s, d) for m in numbers) for d in devices] for s in devices]),
            tuple(numbers),
        )
        for (producers, readers), numbers in sorted(same.items())
    )


def _resources(model: PassModel) -> Ints:
    arrive = model.arrays.arrive
    result = np.full_like(arrive, -1)
    names: dict[int, int] = {}
    for src in range(model.devices):
        for dst in range(model.devices):
            linked = model.problem.transfer_s is not None or np.isfinite(model.arrays.per_byte_s[src, dst])
            if src != dst and linked and arrive[src, dst] >= 0:
                result[src, dst] = names.setdefault(int(arrive[src, dst]), len(names))
    return result
