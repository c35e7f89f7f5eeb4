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
        count = len(problem.cluster)
        self.latency = np.full((count, count), np.nan)
        self.bandwidth = np.full((count, count), np.nan)
        for link in problem.cluster.links:
            self.latency[link.src, link.dst] = link.latency_s
            self.bandwidth[link.src, link.dst] = link.bandwidth_bytes_per_s

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
        taken = count * self.latency[src, dst] + nbytes / self.bandwidth[src, dst]
        back = np.flatnonzero(src == dst)
        if len(back):
            b, at = back, src[back]
            ways = count[b, None] * self.latency[at] + nbytes[b, None] / self.bandwidth[at]
            taken[back] = np.nanmax(np.concatenate([ways, np.zeros((len(back), 1))], axis=1), axis=1)
        taken[count == 0] = 0.0
        return taken
