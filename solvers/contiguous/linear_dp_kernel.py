"""Cutting one topological order into consecutive parts, O(n^2 k l)."""

from __future__ import annotations

import numpy as np
from numba import njit

from solvers.contiguous.downset_walk_kernel import Costs, Limits
from solvers.kernels.arrays import Floats, Ints


@njit(cache=True)
def cut_order(
    order: Ints, costs: Costs, limits: Limits, bound: float, best: Floats, came_from: Ints, begin: int, end: int
) -> None:
    """The best cut of ``order`` (from the end of the pipeline to its start) with a load below ``bound``.

    best, came_from: [positions + 1, states], as in `downset_walk_kernel.Walk` with "the first i
    super-operators of the order" for "downset i"; updated with the parts that start at the positions
    from ``begin`` to ``end``. O(n^2) parts; a part stops growing when its compute reaches the bound.
    """
    count = len(order)
    row = limits.accelerators + 1
    states = row * (limits.cpus + 1)
    inside = np.zeros(len(costs.net_size), np.int64)
    for first in range(begin, end):
        reached = False
        for s in range(states):
            reached = reached or best[first, s] < bound
        if not reached:
            continue
        inside[:] = 0
        acc_s, cpu_s, moved, static, saved, workspace = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for last in range(first, count):
            v = order[last]
            acc_s += costs.acc_s[v] if costs.supported[v] else np.inf
            cpu_s += costs.cpu_s[v]
            static += costs.static_bytes[v]
            saved += costs.saved_bytes[v]
            workspace = max(workspace, costs.workspace_bytes[v])
            if acc_s >= bound and (limits.cpus == 0 or cpu_s >= bound):
                break
            for q in range(costs.nets_start[v], costs.nets_start[v + 1]):
                net = costs.nets[q]
                inside[net] += 1
                if inside[net] == 1:
                    moved += costs.net_s[net]
                if inside[net] == costs.net_size[net]:
                    moved -= costs.net_s[net]
            load = max(acc_s, moved) if limits.overlapped else acc_s + moved
            for s in range(states):
                before = best[first, s]
                if before >= bound:
                    continue
                cpus, accelerators = s // row, s % row
                nbytes = static + limits.in_flight[cpus + accelerators + 1] * saved + workspace
                if accelerators < limits.accelerators and load < bound and nbytes <= limits.acc_bytes:
                    value = max(before, load)
                    if value < best[last + 1, s + 1]:
                        best[last + 1, s + 1] = value
                        came_from[last + 1, s + 1] = 2 * first
                if cpus < limits.cpus and cpu_s < bound and nbytes <= limits.cpu_bytes:
                    value = max(before, cpu_s)
                    if value < best[last + 1, s + row]:
                        best[last + 1, s + row] = value
                        came_from[last + 1, s + row] = 2 * first + 1
