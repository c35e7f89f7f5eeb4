"""The exact dynamic programme over pairs of downsets, in general: every load model, both training
objectives, and replication. `downset_walk` is the fast path for the plain case."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.kernels.downset_walk import DONE, PAUSED, Lattice
from solvers.kernels.variant_costs import (
    MAKES,
    READS,
    VariantCosts,
    VariantLimits,
    add_node,
    busy_s,
    parts_at_least,
    sync_time_s,
    take_away,
)

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@njit(cache=True)
def _holds(words: Words, downset: int, element: int) -> bool:
    return bool((words[downset, element >> 6] >> np.uint64(element & 63)) & np.uint64(1))


@njit(cache=True)
def floors(words: Words, parent: Ids, via: Ids, costs: VariantCosts, cut: bool) -> Floats:
    """The least accelerator seconds that what is outside of every downset takes, [passes, downsets].

    Replicas take r times their own; transfers are no shorter for them. cut: also count the messages
    between inside and outside, which some device outside pays for (where loads are sums and there
    are no CPUs).
    """
    replicas, passes, nodes = costs.acc_s.shape
    least = np.zeros((passes, nodes))
    for p in range(passes):
        for v in range(nodes):
            if costs.supported[v]:
                least[p, v] = costs.acc_s[0, p, v]
                for r in range(1, replicas):
                    least[p, v] = min(least[p, v], (r + 1) * costs.acc_s[r, p, v])
    left = np.zeros((passes, len(parent)))
    for p in range(passes):
        left[p, 0] = least[p].sum()
    for i in range(1, len(parent)):
        v = via[i]
        for p in range(passes):
            left[p, i] = left[p, parent[i]] - least[p, v]
        if cut:
            for t in range(costs.node_start[v], costs.node_start[v + 1]):
                m = costs.node_message[t]
                more = _crosses(words, i, costs, m) - _crosses(words, parent[i], costs, m)
                left[costs.message_pass[m], i] += more * costs.message_s[0, m]
    # Sums that should cancel leave a rest, and with no device left even that would be too much.
    for p in range(passes):
        rest = 1e-12 * (left[p, 0] + costs.message_s[0].sum())
        left[p] = np.maximum(left[p] - rest, 0.0)
    return left


@njit(cache=True)
def _crosses(words: Words, downset: int, costs: VariantCosts, message: int) -> int:
    """How often a message is sent by makers, or received by readers, outside of a downset because of
    readers or makers inside."""
    makers, readers = 0, 0
    first, end = costs.maker_start[message], costs.maker_start[message + 1]
    for i in range(first, end):
        makers += _holds(words, downset, costs.makers[i])
    all_makers = end - first
    first, end = costs.reader_start[message], costs.reader_start[message + 1]
    for i in range(first, end):
        readers += _holds(words, downset, costs.readers[i])
    return int(makers < all_makers and readers > 0) + int(readers < end - first and makers > 0)


class VariantWalk(NamedTuple):
    """The state of `walk_variant` between two calls.

    best: [downsets, states, passes] of the best chain so far, compared by the last pass, then the
    first. came_from: [downsets, states], (replicas + 1) * downset before + replicas of the last part
    (0: a CPU). state = cpus used * (accelerators + 1) + accelerators used. floor_s: `floors`. cursor:
    [downset J, depth or -1, memory was short (0 or 1), pairs seen]. bounds: [passes], only loads below
    them are of interest; the last falls. live, live_count: states of J worth going on from. most:
    [replicas + 1, passes] work that may be left over after one more part, -1 if no device is left for
    it. made, read: [messages] makers and readers in the set; behind: MAKES + READS in J. usable: [replicas + 1]
    scratch. path_*: the walk's stack; path_load: [depth, replicas, passes, 5] compute, sent, received,
    and what of the transfers can no longer be saved; path_cpu: [depth, passes]; path_bytes: [depth, 2]
    static and parameters; path_kept: [depth, replicas, 2] saved and workspace.
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
    usable: Flags
    path_at: Ints
    path_next: Ints
    path_element: Ints
    path_load: Floats
    path_cpu: Floats
    path_bytes: Floats
    path_kept: Floats


@njit(cache=True)
def walk_variant(lattice: Lattice, costs: VariantCosts, limits: VariantLimits, at: VariantWalk, quota: int) -> int:
    """As `downset_walk.walk`, for chains whose parts may be replicated and whose loads are told by pass.

    With two passes: the least largest load in the backward pass of chains whose forward loads are all
    below bounds[0]. Along a walk compute, CPU time, memory, gradients to synchronise and transfers
    with J only grow, in every pass and direction, so reaching a bound in them ends a branch.
    """
    row = limits.accelerators + 1
    full = len(at.best) - 1
    pairs = 0
    source, depth = at.cursor[0], at.cursor[1]
    while source < full:
        if depth < 0:
            if not _open(source, limits, at):
                source += 1
                continue
            _look_behind(source, lattice, costs, at.behind)
            depth = 0
            at.path_at[0] = source
            at.path_next[0] = lattice.up_start[source]
            at.path_element[0] = len(costs.supported)
            at.path_load[0] = 0.0
            at.path_cpu[0] = 0.0
            at.path_bytes[0] = 0.0
            at.path_kept[0] = 0.0
        kept = _reach(limits, at)
        while depth >= 0:
            e = at.path_next[depth]
            last = at.path_element[depth]
            if e >= lattice.up_start[at.path_at[depth] + 1] or lattice.up_element[e] > last:
                if depth > 0:
                    take_away(costs, last, at.made, at.read)
                depth -= 1
                continue
            at.path_next[depth] = e + 1
            v = lattice.up_element[e]
            if not _enter(v, depth, kept, costs, limits, at):
                continue
            depth += 1
            pairs += 1
            add_node(costs, v, at.made, at.read, at.path_load[depth])
            target = lattice.up_to[e]
            at.path_at[depth] = target
            at.path_next[depth] = lattice.up_start[target]
            at.path_element[depth] = v
            for r in range(limits.replicas + 1):
                if at.usable[r]:
                    _relax(source, target, r, depth, row, costs, limits, at)
            if pairs >= quota:
                at.cursor[0], at.cursor[1] = source, depth
                at.cursor[3] += pairs
                return PAUSED
        source += 1
    at.cursor[0], at.cursor[1] = source, -1
    at.cursor[3] += pairs
    return DONE


@njit(cache=True)
def _enter(v: int, depth: int, kept: float, costs: VariantCosts, limits: VariantLimits, at: VariantWalk) -> bool:
    """Prepare the stack for the set with ``v``, all but its transfers; whether any device can take it.

    Says in ``usable`` which: replicas r, or a CPU (0).
    """
    passes, last = at.bounds.shape[0], at.bounds.shape[0] - 1
    deeper = depth + 1
    static = at.path_bytes[depth, 0] + costs.static_bytes[v]
    params = at.path_bytes[depth, 1] + costs.param_bytes[v]
    at.path_bytes[deeper, 0], at.path_bytes[deeper, 1] = static, params
    load = at.path_load[deeper]
    load[:] = at.path_load[depth]
    for t in range(costs.node_start[v], costs.node_start[v + 1]):
        m, role = costs.node_message[t], costs.node_role[t]
        p = costs.message_pass[m]
        if role & MAKES and at.behind[m] & READS and at.made[m] == 0:
            for r in range(limits.replicas):
                load[r, p, 3] += costs.message_s[r, m]
        if role & READS and at.behind[m] & MAKES and at.read[m] == 0:
            for r in range(limits.replicas):
                load[r, p, 4] += costs.message_s[r, m]
    found = False
    for r in range(limits.replicas):
        saved = at.path_kept[depth, r, 0] + costs.saved_bytes[r, v]
        workspace = max(at.path_kept[depth, r, 1], costs.workspace_bytes[r, v])
        at.path_kept[deeper, r, 0], at.path_kept[deeper, r, 1] = saved, workspace
        possible = at.most[r + 1, last] >= 0 and costs.supported[v]
        for p in range(passes):
            sent = load[r, p, 3] + (sync_time_s(costs, r, params) if p == last else 0.0)
            compute = load[r, p, 0] + costs.acc_s[r, p, v]
            possible = possible and busy_s(compute, sent, load[r, p, 4], limits.transfers) < at.bounds[p]
        if possible and static + kept * saved + workspace > limits.acc_bytes:
            possible = False
            at.cursor[2] = 1
        at.usable[r + 1] = possible
        found = found or possible
    possible = at.most[0, last] >= 0
    for p in range(passes):
        at.path_cpu[deeper, p] = at.path_cpu[depth, p] + costs.cpu_s[p, v]
        possible = possible and at.path_cpu[deeper, p] < at.bounds[p]
    if possible and static + kept * at.path_kept[deeper, 0, 0] + at.path_kept[deeper, 0, 1] > limits.cpu_bytes:
        possible = False
        at.cursor[2] = 1
    at.usable[0] = possible
    return found or possible


@njit(cache=True)
def _relax(
    source: int,
    target: int,
    r: int,
    depth: int,
    row: int,
    costs: VariantCosts,
    limits: VariantLimits,
    at: VariantWalk,
) -> None:
    """Go from every live state of ``source`` to ``target`` with the set at ``depth`` on r accelerators (0: a CPU)."""
    last = at.bounds.shape[0] - 1
    first_s = last_s = 0.0
    copy = max(r - 1, 0)
    for p in range(last + 1):
        if r == 0:
            load_s = at.path_cpu[depth, p]
        else:
            sent = at.path_load[depth, copy, p, 1]
            if p == last:
                sent += sync_time_s(costs, copy, at.path_bytes[depth, 1])
            load_s = busy_s(at.path_load[depth, copy, p, 0], sent, at.path_load[depth, copy, p, 2], limits.transfers)
        if load_s >= at.bounds[p] or at.floor_s[p, target] > at.most[r, p]:
            return
        if p == 0:
            first_s = load_s
        last_s = load_s
    cap = limits.cpu_bytes if r == 0 else limits.acc_bytes
    full = len(at.best) - 1
    for i in range(at.live_count[0]):
        s = at.live[i]
        cpus, accelerators = s // row, s % row
        if (r == 0 and cpus >= limits.cpus) or accelerators + r > limits.accelerators:
            continue
        to = s + (r if r > 0 else row)
        value = max(at.best[source, s, last], last_s)
        first = max(at.best[source, s, 0], first_s)
        if value > at.best[target, to, last] or (
            value == at.best[target, to, last] and first >= at.best[target, to, 0]
        ):
            continue
        flights = limits.in_flight[parts_at_least(cpus, accelerators, limits.replicas) + 1]
        nbytes = at.path_bytes[depth, 0] + flights * at.path_kept[depth, copy, 0] + at.path_kept[depth, copy, 1]
        if nbytes > cap:
            at.cursor[2] = 1
            continue
        at.best[target, to, 0] = first
        at.best[target, to, last] = value
        at.came_from[target, to] = (limits.replicas + 1) * source + r
        if target == full:
            at.bounds[last] = min(at.bounds[last], value)


@njit(cache=True)
def _open(source: int, limits: VariantLimits, at: VariantWalk) -> bool:
    """Gather the states of ``source`` worth going on from; whether there is any."""
    row = limits.accelerators + 1
    last = at.bounds.shape[0] - 1
    count = 0
    for cpus in range(limits.cpus + 1):
        for accelerators in range(row):
            s = cpus * row + accelerators
            value = at.best[source, s, last]
            useless = value >= at.bounds[last]
            for p in range(last + 1):
                useless = useless or at.floor_s[p, source] > _capacity(limits, cpus, accelerators, p, at.bounds[p])
            if useless:
                continue
            for c in range(cpus + 1):
                for a in range(accelerators + 1):
                    if (c < cpus or a < accelerators) and at.best[source, c * row + a, last] <= value:
                        useless = True
            if not useless:
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
            if _holds(lattice.words, source, costs.makers[i]):
                behind[m] |= MAKES
                break
        for i in range(costs.reader_start[m], costs.reader_start[m + 1]):
            if _holds(lattice.words, source, costs.readers[i]):
                behind[m] |= READS
                break


@njit(cache=True)
def _capacity(limits: VariantLimits, cpus: int, accelerators: int, p: int, bound: float) -> float:
    """Accelerator seconds of a pass that can still be done below its bound with this many devices used."""
    left = (limits.accelerators - accelerators) * bound + (limits.cpus - cpus) * bound * limits.cpu_worth[p]
    return float(left * (1 + 1e-9))


@njit(cache=True)
def _reach(limits: VariantLimits, at: VariantWalk) -> float:
    """Fill ``most``; returns the fewest micro-batches that the next part keeps in flight."""
    row = limits.accelerators + 1
    at.most[:] = -1.0
    kept = np.inf
    for i in range(at.live_count[0]):
        cpus, accelerators = at.live[i] // row, at.live[i] % row
        kept = min(kept, limits.in_flight[parts_at_least(cpus, accelerators, limits.replicas) + 1])
        for p in range(at.bounds.shape[0]):
            if cpus < limits.cpus:
                at.most[0, p] = max(at.most[0, p], _capacity(limits, cpus + 1, accelerators, p, at.bounds[p]))
            for r in range(1, limits.replicas + 1):
                if accelerators + r <= limits.accelerators:
                    at.most[r, p] = max(at.most[r, p], _capacity(limits, cpus, accelerators + r, p, at.bounds[p]))
    return kept
