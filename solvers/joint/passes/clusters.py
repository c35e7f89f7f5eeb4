"""Operators in clusters that run as one: what list schedulers and exact methods place and order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Floats, Ints, inverse
from solvers.problem.graph import edges_of, labels_after, topological_order
from solvers.problem.ties import Ties


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
    allowed: [units, devices]. static_bytes: [units] B held all the time. held_bytes: [units] B, an estimate of the
    peak: static bytes and all that is saved for the backward pass. successors, predecessors: clusters, ascending.
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

    @property
    def one_by_one(self) -> NDArray[np.bool_]:
        """Whether each device runs one operator at a time, [devices]."""
        return self.model.arrays.wiring.one_by_one

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """Messages that take time between some two devices, those between the same clusters as one; the edges alone
        tell of the others."""
        model, of = self.model, self.cluster_of
        same: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        for number, message in enumerate(model.messages):
            producers = tuple(sorted({int(of[p]) for p in message.producers}))
            readers = tuple(sorted({int(of[r]) for r in message.readers}))
            if len(producers) == 1:  # what stays inside travels nowhere
                readers = tuple(r for r in readers if r != producers[0])
            if readers and model.transfer_s(number).any():
                same.setdefault((producers, readers), []).append(number)
        return tuple(
            Transfer(*ends, np.asarray(sum(model.transfer_s(m) for m in numbers)), tuple(numbers))
            for ends, numbers in sorted(same.items())
        )

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
        return tuple(map(tuple, inverse((transfer.readers for transfer in self.transfers), len(self))))

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
        """When each message of the model starts, by (message, source, destination): with its transfer, given as
        (transfer, source, destination, seconds)."""
        return {(m, src, dst): at for number, src, dst, at in sent for m in self.transfers[number].messages}

    def sequences(self, place: Sequence[int] | Ints, order: Iterable[int]) -> list[list[int]]:
        """The operators of every device where clusters run in this order, place: the device of every unit."""
        result: list[list[int]] = [[] for _ in range(self.devices)]
        for cluster in order:
            result[int(place[self.unit_of[cluster]])].extend(self.members[cluster])
        return result


Number = TypeVar("Number", int, float)


def longest_before(before: Sequence[Sequence[int]], takes: Sequence[Number], *, back: bool = False) -> list[Number]:
    """The longest path that ends just before each cluster, given those before it.

    takes: what each adds to a path. back: ``before`` has what follows each, and paths begin just after it.
    """
    longest: list[Number] = [0 for _ in before]
    for cluster in range(len(before) - 1, -1, -1) if back else range(len(before)):
        longest[cluster] = max((longest[u] + takes[u] for u in before[cluster]), default=0)
    return longest


def uncoarsened(model: PassModel) -> Clusters:
    """Every operator as a cluster of its own, every group as a unit: the model itself."""
    return clustered(model, range(model.operators))


def clustered(model: PassModel, label: Sequence[int] | Ints, unit_of_group: Ints | None = None) -> Clusters:
    """The operators with the same label as clusters.

    Clusters are numbered in a topological order, equal ones by their first operator in the model's order.
    label: [operators], any number. unit_of_group: [groups], numbers from 0 of what is to share a device, at least the
    groups of a cluster; by default no more than these.
    Raises ValueError if the clusters wait for each other in a cycle.
    """
    rough: dict[int, list[int]] = {}
    for operator in model.order:
        rough.setdefault(int(label[operator]), []).append(operator)
    number = {name: i for i, name in enumerate(rough)}
    rough_of = [number[int(name)] for name in label]
    after = labels_after(edges_of(model.successors), rough_of, len(rough))
    order = topological_order(after)
    if len(order) < len(rough):
        raise ValueError("the clusters wait for each other in a cycle")
    position = {old: new for new, old in enumerate(order)}
    rows = list(rough.values())
    members = tuple(tuple(rows[old]) for old in order)
    successors = tuple(tuple(sorted(position[t] for t in after[old])) for old in order)
    if unit_of_group is None:
        unit_of_group = _units(model, members)
    units = int(unit_of_group.max(initial=-1)) + 1
    return Clusters(
        model=model,
        members=members,
        unit_of=unit_of_group[model.group_of[[operators[0] for operators in members]]],
        unit_of_group=unit_of_group,
        seconds=np.stack([model.seconds[list(operators)].sum(axis=0) for operators in members]),
        allowed=model.allowed_to(unit_of_group),
        static_bytes=np.bincount(unit_of_group, model.static_bytes, units).astype(np.float64),
        held_bytes=np.bincount(unit_of_group, model.held_bytes, units).astype(np.float64),
        successors=successors,
        predecessors=tuple(map(tuple, inverse(successors, len(members)))),
    )


def _units(model: PassModel, members: Sequence[Sequence[int]]) -> Ints:
    """The unit of every group, numbered by their first cluster: groups of one cluster share a device."""
    ties = Ties(len(model.groups))
    for operators in members:
        for operator in operators[1:]:
            ties.tie(int(model.group_of[operators[0]]), int(model.group_of[operator]))
    number: dict[int, int] = {}
    for operators in members:
        number.setdefault(ties.root(int(model.group_of[operators[0]])), len(number))
    return np.array([number[ties.root(group)] for group in range(len(model.groups))], np.int64)
