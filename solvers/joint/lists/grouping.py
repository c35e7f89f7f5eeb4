"""Which groups of operators list schedulers place as one unit."""

from __future__ import annotations

import numpy as np

from solvers.joint.passes.model import PassModel
from solvers.kernels.arrays import Floats, Ints
from solvers.problem.ties import Ties


class _Units:
    """Groups being joined, as long as some device may take and hold them all."""

    def __init__(self, model: PassModel, caps: Floats) -> None:
        self.ties = Ties(len(model.groups))
        self.allowed = model.allowed.copy()
        self.nbytes = model.held_bytes.copy()
        self.caps = caps

    def join(self, a: int, b: int) -> bool:
        """Make two units one if that can be placed; whether it was done, or they are one."""
        a, b = self.ties.root(a), self.ties.root(b)
        if a == b:
            return True
        nbytes = self.nbytes[a] + self.nbytes[b]
        both = self.allowed[a] & self.allowed[b]
        if not (both & (nbytes <= self.caps)).any():
            return False
        root = self.ties.tie(a, b)
        self.nbytes[root], self.allowed[root] = nbytes, both
        return True


def singletons(model: PassModel) -> Ints:
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
    return units.ties.labels()


def in_touch(model: PassModel) -> Ints:
    """The unit of every group after joining all that exchange what takes a link, where some device may take them."""
    units = _Units(model, np.full(model.devices, np.inf))
    for message in model.messages:
        if message.tensors:
            first, *others = sorted({int(model.group_of[o]) for o in (*message.producers, *message.readers)})
            for other in others:
                units.join(first, other)
    return units.ties.labels()


def seconds_between(model: PassModel) -> dict[tuple[int, int], float]:
    """Seconds of what two groups exchange, averaged over links, by (lower, higher) group."""
    between: dict[tuple[int, int], float] = {}
    for message, seconds in zip(model.messages, model.mean_transfer_s.tolist(), strict=True):
        for reader in sorted({int(model.group_of[o]) for o in message.readers}):
            for maker in sorted({int(model.group_of[o]) for o in message.producers}):
                if maker != reader:
                    pair = min(maker, reader), max(maker, reader)
                    between[pair] = between.get(pair, 0.0) + seconds
    return between


def heavy(model: PassModel, caps: Floats, parts: int) -> Ints:
    """The unit of every group after joining, heaviest transfers first, what stays below 1/``parts`` of all work.

    The weight of two groups is the seconds that all they exchange takes, over the root of 1 + their work
    as a share of that limit. caps: as in `co_placed`.
    """
    units = _Units(model, caps)
    work = np.bincount(model.group_of, model.mean_s, len(model.groups))
    limit = float(work.sum()) / parts
    between = {pair: seconds for pair, seconds in seconds_between(model).items() if seconds > 0}
    share = work / limit if limit > 0 else work
    order = sorted(between, key=lambda pair: (-between[pair] / np.sqrt(1 + share[pair[0]] + share[pair[1]]), pair))
    for a, b in order:
        a, b = units.ties.root(a), units.ties.root(b)
        if a != b and work[a] + work[b] <= limit and units.join(a, b):
            work[min(a, b)] = work[a] + work[b]
    return units.ties.labels()
