"""The exact dynamic programme over pairs of downsets, in general: every load model, both training
objectives, and replication. `downset_walk_kernel` is the fast path for the plain case."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.contiguous.lattice_kernel import DONE, PAUSED, Lattice, holds
from solvers.contiguous.variant_costs_kernel import MAKES, READS, VariantCosts, VariantLimits, busy_s
from solvers.kernels.arrays import Bools, Floats, Ints

Ids = NDArray[np.int32]


class VariantWalk(NamedTuple):
    """The state of `walk_variant` between two calls.

    best: [downsets, states, passes] of the best chain so far, compared by the last pass, then the
    first. came_from: [downsets, states], ways * downset before + the way of the last part. floor_s: `floors`. cursor:
    [downset J, depth or -1, memory was short (0 or 1), pairs seen]. bounds: [passes], only loads below
    them are of interest; the last falls. live, live_count: states of J worth going on from. most:
    [ways, passes] work that may be left over after one more part, -1 if no device is left for
    it. made, read: [messages] makers and readers in the set; behind: MAKES + READS in J. usable: [ways]
    scratch. path_*: the walk's stack; path_load: [depth, rows, passes, 5] compute, sent, received,
    and what of the transfers can no longer be saved; path_cpu: [depth, passes]; path_bytes: [depth, 2]
    static and parameters; path_kept: [depth, rows, 2] saved and workspace.
    """

    best: Floats
    came_from: Ids
    floor_s: Floats
    cursor: Ints
    bounds: Floats
    live: Ints
    live_count: Ints
    most: Floats
    made: Ints
    read: Ints
    behind: Ints
    usable: Bools
    path_at: Ints
    path_next: Ints
    path_element: Ints
    path_load: Floats
    path_cpu: Floats
    path_bytes: Floats
    path_kept: Floats


@njit(cache=True)
def walk_variant(lattice: Lattice, costs: VariantCosts, limits: VariantLimits, at: VariantWalk, quota: int) -> int:
    """As `downset_walk_kernel.walk`, for chains whose parts may be replicated and whose loads are told by pass.

    With two passes: the least largest load in the backward pass of chains whose forward loads are all
    below bounds[0]. Along a walk compute, CPU time, memory, gradients to synchronise and transfers
    with J only grow, in every pass and direction, so reaching a bound in them ends a branch.
    """
    # Everything is unpacked once: taking an array out of a tuple costs more than what is done with it.
    _, up_start, up_element, up_to = lattice
    acc_of, cpu_of, _, static_of, params_of, saved_of, workspace_of, sync_s, sync_s_per_byte = costs[:9]
    node_start, node_message, node_role, message_pass, message_s = costs[9:14]
    maker_start, _, reader_start, _ = costs[14:]
    used, _, available, flights, need, step, way_row, way_bytes, transfers, _ = limits
    best, came_from, floor_s, cursor, bounds, live, live_count, most, made, read, behind, usable = at[:12]
    path_at, path_next, path_element, path_load, path_cpu, path_bytes, path_kept = at[12:]
    rows, nodes = len(acc_of), acc_of.shape[2]
    ways, classes = need.shape
    full = len(best) - 1
    passes = len(bounds)
    last = passes - 1
    pairs = looks = 0
    source, depth = cursor[0], cursor[1]
    while source < full and looks < quota:
        if depth < 0:
            looks += best.shape[1]
            if not _open(source, limits, at):
                source += 1
                continue
            _look_behind(source, lattice, costs, behind)
            depth = 0
            path_at[0] = source
            path_next[0] = up_start[source]
            path_element[0] = nodes
            path_load[0] = 0.0
            path_cpu[0] = 0.0
            path_bytes[0] = 0.0
            path_kept[0] = 0.0
        kept = _reach(limits, at)
        while depth >= 0:
            e = path_next[depth]
            newest = path_element[depth]
            if e >= up_start[path_at[depth] + 1] or up_element[e] > newest:
                if depth > 0:
                    for t in range(node_start[newest], node_start[newest + 1]):
                        made[node_message[t]] -= node_role[t] & MAKES
                        read[node_message[t]] -= node_role[t] >> 1
                depth -= 1
                continue
            path_next[depth] = e + 1
            v = up_element[e]
            deeper = depth + 1

            # The set with v, all but the transfers that may still be saved: which devices can take it?
            static = path_bytes[depth, 0] + static_of[v]
            params = path_bytes[depth, 1] + params_of[v]
            for r in range(rows):
                for p in range(passes):
                    # inf once an operator of the set cannot run there
                    path_load[deeper, r, p, 0] = path_load[depth, r, p, 0] + acc_of[r, p, v]
                    for column in range(1, 5):
                        path_load[deeper, r, p, column] = path_load[depth, r, p, column]
            for t in range(node_start[v], node_start[v + 1]):
                m, role = node_message[t], node_role[t]
                if role & MAKES and behind[m] & READS and made[m] == 0:
                    for r in range(rows):
                        path_load[deeper, r, message_pass[m], 3] += message_s[r, m]
                if role & READS and behind[m] & MAKES and read[m] == 0:
                    for r in range(rows):
                        path_load[deeper, r, message_pass[m], 4] += message_s[r, m]
            found = False
            for r in range(rows):
                saved = path_kept[depth, r, 0] + saved_of[r, v]
                workspace = max(path_kept[depth, r, 1], workspace_of[r, v])
                path_kept[deeper, r, 0], path_kept[deeper, r, 1] = saved, workspace
                impossible = np.isinf(sync_s[r])
                synchronised = sync_s[r] + sync_s_per_byte[r] * params if params > 0 or impossible else 0.0
                within = True
                for p in range(passes):
                    sent = path_load[deeper, r, p, 3] + (synchronised if p == last else 0.0)
                    least_s = busy_s(path_load[deeper, r, p, 0], sent, path_load[deeper, r, p, 4], transfers)
                    within = within and least_s < bounds[p]
                for w in range(1, ways):
                    if way_row[w] != r:
                        continue
                    possible = within and most[w, last] >= 0
                    if possible and static + kept * saved + workspace > way_bytes[w]:
                        possible = False
                        cursor[2] = 1
                    usable[w] = possible
                    found = found or possible
            possible = most[0, last] >= 0
            for p in range(passes):
                path_cpu[deeper, p] = path_cpu[depth, p] + cpu_of[p, v]
                possible = possible and path_cpu[deeper, p] < bounds[p]
            if possible and static + kept * path_kept[deeper, 0, 0] + path_kept[deeper, 0, 1] > way_bytes[0]:
                possible = False
                cursor[2] = 1
            usable[0] = possible
            if not (found or possible):
                continue

            # Enter it.
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
                if more_sent != 0 or more_received != 0:
                    p = message_pass[m]
                    for r in range(rows):
                        path_load[deeper, r, p, 1] += more_sent * message_s[r, m]
                        path_load[deeper, r, p, 2] += more_received * message_s[r, m]
            depth = deeper
            pairs += 1
            target = up_to[e]
            path_at[depth] = target
            path_next[depth] = up_start[target]
            path_element[depth] = v
            path_bytes[depth, 0] = static
            path_bytes[depth, 1] = params

            # Go from every live state of J to the target with the set on a CPU (0) or on accelerators.
            for w in range(ways):
                if not usable[w]:
                    continue
                r = way_row[w]
                impossible = np.isinf(sync_s[r])
                synchronised = sync_s[r] + sync_s_per_byte[r] * params if params > 0 or impossible else 0.0
                first_s = last_s = 0.0
                possible = True
                for p in range(passes):
                    if w == 0:
                        load_s = path_cpu[depth, p]
                    else:
                        sent = path_load[depth, r, p, 1] + (synchronised if p == last else 0.0)
                        load_s = busy_s(path_load[depth, r, p, 0], sent, path_load[depth, r, p, 2], transfers)
                    possible = possible and load_s < bounds[p] and floor_s[p, target] <= most[w, p]
                    first_s = load_s if p == 0 else first_s
                    last_s = load_s
                if not possible:
                    continue
                for i in range(live_count[0]):
                    s = live[i]
                    enough = True
                    for c in range(classes):
                        enough = enough and used[s, c] + need[w, c] <= available[c]
                    if not enough:
                        continue
                    to = s + step[w]
                    value, ahead = max(best[source, s, last], last_s), max(best[source, s, 0], first_s)
                    known = best[target, to, last]
                    if value > known or (value == known and ahead >= best[target, to, 0]):
                        continue
                    if static + flights[s] * path_kept[depth, r, 0] + path_kept[depth, r, 1] > way_bytes[w]:
                        cursor[2] = 1
                        continue
                    best[target, to, 0] = ahead
                    best[target, to, last] = value
                    came_from[target, to] = ways * source + w
                    if target == full:
                        bounds[last] = min(bounds[last], value)
            if pairs >= quota:
                cursor[0], cursor[1] = source, depth
                cursor[3] += pairs
                return PAUSED
        source += 1
    cursor[0], cursor[1] = source, -1
    cursor[3] += pairs
    return DONE if source >= full else PAUSED


@njit(cache=True)
def _open(source: int, limits: VariantLimits, at: VariantWalk) -> bool:
    """Gather the states of ``source`` worth going on from; whether there is any."""
    last = at.bounds.shape[0] - 1
    states, classes = limits.used.shape
    count = 0
    least = np.empty(states)  # the best with no more devices of any class
    for s in range(states):
        value = at.best[source, s, last]
        fewer = np.inf
        for c in range(classes):
            if limits.used[s, c] > 0:
                fewer = min(fewer, least[s - limits.stride[c]])
        least[s] = min(value, fewer)
        useful = value < at.bounds[last] and value < fewer
        for p in range(last + 1):
            useful = useful and at.floor_s[p, source] <= _capacity(limits, s, -1, p, at.bounds[p])
        if useful:
            at.live[count] = s
            count += 1
    at.live_count[0] = count
    return count > 0


@njit(cache=True)
def _look_behind(source: int, lattice: Lattice, costs: VariantCosts, behind: Ints) -> None:
    """Note which messages ``source`` makes and reads."""
    for m in range(len(behind)):
        behind[m] = 0
        for i in range(costs.maker_start[m], costs.maker_start[m + 1]):
            if holds(lattice.words, source, costs.makers[i]):
                behind[m] |= MAKES
                break
        for i in range(costs.reader_start[m], costs.reader_start[m + 1]):
            if holds(lattice.words, source, costs.readers[i]):
                behind[m] |= READS
                break


@njit(cache=True)
def _capacity(limits: VariantLimits, state: int, way: int, p: int, bound: float) -> float:
    """Work of a pass that can still be done below its bound after a state, and a part made in a way (-1: none); -1
    where there are not devices enough for it."""
    left = 0.0
    for c in range(limits.used.shape[1]):
        devices = limits.available[c] - limits.used[state, c] - (limits.need[way, c] if way >= 0 else 0)
        if devices < 0:
            return -1.0
        left += devices * bound * limits.worth[c, p]
    return float(left * (1 + 1e-9))


@njit(cache=True)
def _reach(limits: VariantLimits, at: VariantWalk) -> float:
    """Fill ``most``; returns the fewest micro-batches that the next part keeps in flight."""
    at.most[:] = -1.0
    kept = np.inf
    for i in range(at.live_count[0]):
        kept = min(kept, limits.flights[at.live[i]])
        for p in range(at.bounds.shape[0]):
            for w in range(len(limits.need)):
                at.most[w, p] = max(at.most[w, p], _capacity(limits, at.live[i], w, p, at.bounds[p]))
    return kept
