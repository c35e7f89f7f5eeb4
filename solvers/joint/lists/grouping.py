"""Which groups of operators list schedulers place as one unit."""

from __future__ import annotations

import numpy as np

from solvers.joint.lists.jobs import held_bytes
from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Floats, Ints


class _Units:
    """Groups being joined, as long as some device may take and hold them all."""

    def __init__(self, model: PassModel, caps: Floats) -> None:
        self.root = list(range(len(model.groups)))
        self.allowed = model.allowed.copy()
        self.nbytes = held_bytes(model)
        self.caps = caps

    def find(self, group: int) -> int:
        while self.root[group] != group:
            self.root[group] = self.root[self.root[group]]
            group = self.root[group]
        return group

    def join(self, a: int, b: int) -> bool:
        """Make two units one if that can be placed; whether it was done, or they are one."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        nbytes = self.nbytes[a] + self.nbytes[b]
        both = self.allowed[a] & self.allowed[b]
        if not (both & (nbytes <= self.caps)).any():
            return False
        low, high = min(a, b), max(a, b)
        self.root[high] = low
        self.nbytes[low], self.allowed[low] = nbytes, both
        return True

    def labels(self) -> Ints:
        """The unit of every group, units numbered by their first group."""
        number: dict[int, int] = {}
        return np.array([number.setdefault(self.find(group), len(number)) for group in range(len(self.root))])


def apart(model: PassModel) -> Ints:
    """Every group for itself."""
    return np.arange(len(model.groups))


def co_placed(model: PassModel, caps: Floats) -> Ints:
    """The unit of every group: an operator with a single consumer joins that one's group.

    Co-placement of Jeon et al., SoCC 2020, section 4; ours is that units grow no larger than some device's
    cap, nor beyond what may share a device. caps: bytes per device, [devices].
    """
    units = _Units(model, caps)
    for operator in model.order:
        targets = model.successors[operator]
        if len(targets) == 1:
            units.join(int(model.group_of[operator]), int(model.group_of[targets[0]]))
    return units.labels()


def in_touch(model: PassModel) -> Ints:
    """The unit of every group after joining all that exchange what takes a link, where some device may take them."""
    units = _Units(model, np.full(model.devices, np.inf))
    for message in model.messages:
        if message.tensors:
            first, *others = sorted({int(model.group_of[o]) for o in (*message.producers, *message.readers)})
            for other in others:
                units.join(first, other)
    return units.labels()


def heavy(model: PassModel, caps: Floats, parts: int) -> Ints:
    """The unit of every group after joining, heaviest transfers first, what stays below 1/``parts`` of all work.

    The weight of two groups is the seconds that all they exchange takes, over the root of 1 + their work
    as a share of that limit. caps: as in `co_placed`.
    """
    units = _Units(model, caps)
    work = np.zeros(len(model.groups))
    np.add.at(work, model.group_of, model.mean_s)
    limit = float(work.sum()) / parts
    between: dict[tuple[int, int], float] = {}
    for number, message in enumerate(model.messages):
        seconds = float(model.mean_transfer_s[number])
        ends = {int(model.group_of[o]) for o in message.producers}
        for other in sorted({int(model.group_of[o]) for o in message.readers}):
            for end in sorted(ends):
                if end != other and seconds > 0:
                    pair = min(end, other), max(end, other)
                    between[pair] = between.get(pair, 0.0) + seconds
    share = work / limit if limit > 0 else work
    order = sorted(between, key=lambda pair: (-between[pair] / np.sqrt(1 + share[pair[0]] + share[pair[1]]), pair))
    for a, b in order:
        a, b = units.find(a), units.find(b)
        if a != b and work[a] + work[b] <= limit and units.join(a, b):
            work[min(a, b)] = work[a] + work[b]
    return units.labels()
