"""Cutting one topological order into consecutive parts, in general: see `variant_walk_kernel`."""

from __future__ import annotations

import numpy as np
from numba import njit

from solvers.contiguous.variant_costs_kernel import MAKES, VariantCosts, VariantLimits, busy_s
from solvers.kernels.arrays import Floats, Ints


@njit(cache=True)
def cut_order_variant(
    order: Ints,
    costs: VariantCosts,
    limits: VariantLimits,
    bounds: Floats,
    best: Floats,
    came_from: Ints,
    begin: int,
    end: int,
) -> None:
    """The best cut of ``order`` (from the end of the pipeline to its start) with loads below ``bounds``, [passes].

    best: [positions + 1, states, passes], came_from: [positions + 1, states], as in
    `variant_walk_kernel.VariantWalk` with "the first i super-operators of the order" for "downset i"; updated
    with the parts that start at the positions from ``begin`` to ``end``.
    """
    acc_of, cpu_of, _, static_of, params_of, saved_of, workspace_of, sync_s, sync_s_per_byte = costs[:9]
    node_start, node_message, node_role, message_pass, message_s = costs[9:14]
    maker_start, _, reader_start, _ = costs[14:]
    used, _, available, flights, need, step, way_row, way_bytes, transfers, _ = limits
    count = len(order)
    passes = len(bounds)
    final = passes - 1
    states, classes = used.shape
    rows, ways = len(acc_of), len(need)
    made, read = np.zeros(len(message_pass), np.int64), np.zeros(len(message_pass), np.int64)
    load = np.zeros((rows, passes, 3))
    load_s = np.zeros((rows, passes))
    cpu_s = np.zeros(passes)
    usable = np.zeros(rows, np.bool_)
    saved, workspace = np.zeros(rows), np.zeros(rows)
    for first in range(begin, end):
        if best[first, :, final].min() >= bounds[final]:
            continue
        made[:] = 0
        read[:] = 0
        load[:] = 0.0
        cpu_s[:] = 0.0
        saved[:] = 0.0
        workspace[:] = 0.0
        static = params = 0.0
        for last in range(first, count):
            v = order[last]
            static += static_of[v]
            params += params_of[v]
            for t in range(node_start[v], node_start[v + 1]):
                m, role = node_message[t], node_role[t]
                all_makers = maker_start[m + 1] - maker_start[m]
                all_readers = reader_start[m + 1] - reader_start[m]
                sends = made[m] > 0 and read[m] < all_readers
                receives = read[m] > 0 and made[m] < all_makers
                made[m] += role & MAKES
                read[m] += role >> 1
                more_sent = int(made[m] > 0 and read[m] < all_readers) - int(sends)
                more_received = int(read[m] > 0 and made[m] < all_makers) - int(receives)
                for r in range(rows):
                    load[r, message_pass[m], 1] += more_sent * message_s[r, m]
                    load[r, message_pass[m], 2] += more_received * message_s[r, m]
            hopeless = True
            for r in range(rows):
                saved[r] += saved_of[r, v]
                workspace[r] = max(workspace[r], workspace_of[r, v])
                impossible = np.isinf(sync_s[r])
                synchronised = sync_s[r] + sync_s_per_byte[r] * params if params > 0 or impossible else 0.0
                usable[r] = within = True
                for p in range(passes):
                    load[r, p, 0] += acc_of[r, p, v]
                    sent = load[r, p, 1] + (synchronised if p == final else 0.0)
                    load_s[r, p] = busy_s(load[r, p, 0], sent, load[r, p, 2], transfers)
                    usable[r] = usable[r] and load_s[r, p] < bounds[p]
                    within = within and load[r, p, 0] < bounds[p]
                hopeless = hopeless and not within
            on_cpu = available[0] > 0
            for p in range(passes):
                cpu_s[p] += cpu_of[p, v]
                on_cpu = on_cpu and cpu_s[p] < bounds[p]
            if hopeless and not on_cpu:
                break
            for s in range(states):
                if best[first, s, final] >= bounds[final]:
                    continue
                for w in range(ways):
                    r = way_row[w]
                    if not (on_cpu if w == 0 else usable[r]):
                        continue
                    if static + flights[s] * saved[r] + workspace[r] > way_bytes[w]:
                        continue
                    enough = True
                    for c in range(classes):
                        enough = enough and used[s, c] + need[w, c] <= available[c]
                    if not enough:
                        continue
                    to = s + step[w]
                    last_s = cpu_s[final] if w == 0 else load_s[r, final]
                    first_s = cpu_s[0] if w == 0 else load_s[r, 0]
                    value, ahead = max(best[first, s, final], last_s), max(best[first, s, 0], first_s)
                    known = best[last + 1, to, final]
                    if value < known or (value == known and ahead < best[last + 1, to, 0]):
                        best[last + 1, to, 0] = ahead
                        best[last + 1, to, final] = value
                        came_from[last + 1, to] = ways * first + w
