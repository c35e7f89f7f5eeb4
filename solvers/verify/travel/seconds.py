"""How long and how large what travels is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solvers.kernels.arrays import Floats, Ints
from solvers.problem.problem import Problem
from solvers.verify.arrays.ragged import ints
from solvers.verify.work.messages import Bundle


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
