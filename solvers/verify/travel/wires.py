"""What a transfer occupies."""

from __future__ import annotations

import numpy as np

from solvers.kernels.arrays import Ints
from solvers.problem.problem import Problem, Transfers
from solvers.verify.arrays.ragged import ints


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
