"""Cutting one topological order into consecutive parts, in general: see `variant_walk`."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.kernels.variant_costs import VariantCosts, VariantLimits, add_node, busy_s, parts_at_least, sync_time_s

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True)
def cut_order_variant(order: Ints, costs: VariantCosts, limits: VariantLimits, bounds: Floats) -> tuple[Floats, Ints]:
    """The best cut of ``order`` (from the end of the pipeline to its start) with loads below ``bounds``, [passes].

    Returns best [positions + 1, states, passes] and came_from [positions + 1, states], as in
    `variant_walk.VariantWalk` with "the first i super-operators of the order" for "downset i".
    """
    count = len(order)
    replicas, passes = limits.replicas, len(bounds)
    row, final = limits.accelerators + 1, passes - 1
    states = row * (limits.cpus + 1)
    best = np.full((count + 1, states, passes), np.inf)
    came_from = np.full((count + 1, states), -1, np.int64)
    best[0, 0] = 0.0
    load = np.zeros((replicas, passes, 3))
    load_s = np.zeros((replicas + 1, passes))
    usable = np.zeros(replicas + 1, np.bool_)
    saved, workspace = np.zeros(replicas), np.zeros(replicas)
    for first in range(count):
        if best[first, :, final].min() >= bounds[final]:
            continue
        made, read = np.zeros(costs.message_s.shape[1], np.int64), np.zeros(costs.message_s.shape[1], np.int64)
        load[:] = 0.0
        load_s[0] = 0.0
        saved[:] = 0.0
        workspace[:] = 0.0
        static = params = 0.0
        for last in range(first, count):
            v = order[last]
            add_node(costs, v, made, read, load)
            static += costs.static_bytes[v]
            params += costs.param_bytes[v]
            usable[:] = True
            hopeless = True
            for r in range(replicas):
                saved[r] += costs.saved_bytes[r, v]
                workspace[r] = max(workspace[r], costs.workspace_bytes[r, v])
                within = True
                for p in range(passes):
                    sent = load[r, p, 1] + (sync_time_s(costs, r, params) if p == final else 0.0)
                    load_s[r + 1, p] = busy_s(load[r, p, 0], sent, load[r, p, 2], limits.transfers)
                    usable[r + 1] = usable[r + 1] and load_s[r + 1, p] < bounds[p]
                    within = within and load[r, p, 0] < bounds[p]
                hopeless = hopeless and not within
            for p in range(passes):
                load_s[0, p] += costs.cpu_s[p, v]
                usable[0] = usable[0] and load_s[0, p] < bounds[p]
            if hopeless and not (usable[0] and limits.cpus > 0):
                break
            for s in range(states):
                if best[first, s, final] >= bounds[final]:
                    continue
                cpus, accelerators = s // row, s % row
                flights = limits.in_flight[parts_at_least(cpus, accelerators, replicas) + 1]
                for r in range(replicas + 1):
                    if not usable[r] or (r == 0 and cpus >= limits.cpus) or accelerators + r > limits.accelerators:
                        continue
                    copy = max(r - 1, 0)
                    cap = limits.cpu_bytes if r == 0 else limits.acc_bytes
                    if static + flights * saved[copy] + workspace[copy] > cap:
                        continue
                    to = s + (r if r > 0 else row)
                    value = max(best[first, s, final], load_s[r, final])
                    ahead = max(best[first, s, 0], load_s[r, 0])
                    known = best[last + 1, to, final]
                    if value < known or (value == known and ahead < best[last + 1, to, 0]):
                        best[last + 1, to, 0] = ahead
                        best[last + 1, to, final] = value
                        came_from[last + 1, to] = (replicas + 1) * first + r
    return best, came_from
