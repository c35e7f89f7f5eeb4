"""What a transfer occupies, how long it takes and how large it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.problem.problem import Problem, Transfers
from solvers.verify.arrays.ragged import ints
from solvers.verify.work.messages import Bundle


class Wires:
    """Resources as numbers, in the order in which they are met."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.numbers: dict[str, int] = {}

    def of(self, way: str, src: Ints, dst: Ints, mode: Transfers | None = None) -> Ints:
        """What a transfer from ``src`` to ``dst`` occupies on its way "out" of a device or "in" to another."""
        mode = mode or self.problem.transfers
        pairs, which = np.unique(src * len(self.problem.cluster) + dst, return_inverse=True)
        numbers = []
        for pair in pairs.tolist():
            a, b = divmod(pair, len(self.problem.cluster))
            if mode is Transfers.LINKS:
                link = self.problem.cluster.link(a, b)
                name = link.resource if link is not None and link.resource else f"{a}->{b}"
            else:
                what = {Transfers.BLOCKING: "device", Transfers.LANE: "lane", Transfers.DUPLEX: way}[mode]
                name = f"{what} {a if way == 'out' else b}"
            numbers.append(self.numbers.setdefault(name, len(self.numbers)))
        return ints(numbers)[which]

    def known(self) -> tuple[str, ...]:
        return tuple(self.numbers)


class Speeds:
    """Seconds and bytes of bundles between devices, for columns of them."""

    def __init__(self, problem: Problem, bundles: Sequence[Bundle]) -> None:
        self.stated = problem.transfer_s is not None
        self.tensors = ints(bundle.tensors for bundle in bundles)
        self.fixed = np.array([bundle.fixed for bundle in bundles])
        self.per_sample = np.array([bundle.per_sample for bundle in bundles])
        self.stated_s = np.array([bundle.stated_s for bundle in bundles])
        self.cluster = problem.cluster

    def nbytes(self, bundle: Ints, samples: Floats) -> Floats:
        """Bytes of ``samples``."""
        amount: Floats = self.fixed[bundle] + self.per_sample[bundle] * samples
        return amount

    def seconds(self, bundle: Ints, samples: Floats, src: Ints, dst: Ints) -> Floats:
        """Seconds to move ``samples``: a latency for each tensor, and the bytes; as stated where it is stated;
        from a device to itself, which is to the host and back, as over its slowest link; NaN without a link."""
        if self.stated:
            taken: Floats = self.stated_s[bundle] * samples
            return taken
        count, nbytes = self.tensors[bundle], self.nbytes(bundle, samples)
        devices = len(self.cluster)
        pairs, which = np.unique(src * devices + dst, return_inverse=True)
        latency, speed = np.array([self._speed(*divmod(pair, devices)) for pair in pairs.tolist()]).reshape(-1, 2).T
        taken = count * latency[which] + nbytes / speed[which]
        for at in np.unique(src[src == dst]).tolist():
            back = np.flatnonzero((src == at) & (dst == at))
            ways = {self._speed(at, there) for there in range(devices) if self.cluster.link(at, there) is not None}
            each = [count[back] * wait + nbytes[back] / rate for wait, rate in ways]
            taken[back] = np.max([np.zeros(len(back)), *each], axis=0)
        taken[count == 0] = 0.0
        return taken

    def _speed(self, src: int, dst: int) -> tuple[float, float]:
        """(latency, bandwidth) of a link, NaN without one."""
        link = self.cluster.link(src, dst)
        return (np.nan, np.nan) if link is None else (link.latency_s, link.bandwidth_bytes_per_s)
