"""What is left to do outside of a downset, at least: what lets the general walk stop early."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.contiguous.lattice_kernel import holds
from solvers.contiguous.variant_costs_kernel import VariantCosts
from solvers.kernels.arrays import Floats, Words

Ids = NDArray[np.int32]


@njit(cache=True)
def floors(
    words: Words, parent: Ids, via: Ids, costs: VariantCosts, cut: bool, left: Floats, first: int, end: int
) -> None:
    """Fill in the least accelerator seconds that what is outside of a downset takes, from ``first`` to ``end``.

    left: [passes, downsets], filled in up to ``first``. Replicas take r times their own; transfers are
    no shorter for them. cut: also count the messages between inside and outside, which some device
    outside pays for (where loads are sums and there are no CPUs).
    """
    rows, passes, nodes = costs.acc_s.shape
    least = np.zeros((passes, nodes))
    for p in range(passes):
        for v in range(nodes):
            work_s = np.inf
            for r in range(rows):
                work_s = min(work_s, costs.row_replicas[r] * costs.acc_s[r, p, v])
            least[p, v] = work_s if work_s < np.inf else 0.0
        left[p, 0] = least[p].sum()
    for i in range(max(first, 1), end):
        v = via[i]
        for p in range(passes):
            left[p, i] = left[p, parent[i]] - least[p, v]
        if cut:
            for t in range(costs.node_start[v], costs.node_start[v + 1]):
                m = costs.node_message[t]
                more = _crosses(words, i, costs, m) - _crosses(words, parent[i], costs, m)
                left[costs.message_pass[m], i] += more * costs.message_s[0, m]


@njit(cache=True)
def _crosses(words: Words, downset: int, costs: VariantCosts, message: int) -> int:
    """How often a message is sent by makers, or received by readers, outside of a downset because of
    readers or makers inside."""
    makers, readers = 0, 0
    first, end = costs.maker_start[message], costs.maker_start[message + 1]
    for i in range(first, end):
        makers += holds(words, downset, costs.makers[i])
    all_makers = end - first
    first, end = costs.reader_start[message], costs.reader_start[message + 1]
    for i in range(first, end):
        readers += holds(words, downset, costs.readers[i])
    return int(makers < all_makers and readers > 0) + int(readers < end - first and makers > 0)
