"""Enumerating downsets as bitsets, and the exact dynamic programme over pairs of them.

Both kernels keep their whole state in arrays and return after a bounded amount of work, so that
the caller can look at the clock and a stop signal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]
Words = NDArray[np.uint64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

DONE, PAUSED, NEEDS_ROOM, OVER_BUDGET = 0, 1, 2, 3


class Order(NamedTuple):
    """A partial order's cover lists: row i is items[start[i]:start[i + 1]]."""

    before_start: Ints
    before: Ints
    after_start: Ints
    after: Ints


class Growing(NamedTuple):
    """The lattice while it grows; the first ``count`` rows (``relations`` entries) are in use.

    words: [downsets, words] bitset. key: [downsets] hash, the xor of the members' random keys.
    parent, via: the downset it was first reached from, and the element added. up_start, up_element,
    up_to: cover relations, downset i goes up by up_element[e] to up_to[e]. table: open addressing.
    """

    words: Words
    key: Words
    parent: Ids
    via: Ids
    up_start: Ints
    up_element: Ids
    up_to: Ids
    table: Ids


@njit(cache=True)
def file_keys(table: Ids, key: Words, count: int) -> None:
    """Put the first ``count`` downsets into an empty table whose size is a power of two."""
    mask = np.uint64(len(table) - 1)
    for i in range(count):
        slot = np.int64(key[i] & mask)
        while table[slot] >= 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = i


@njit(cache=True)
def expand(order: Order, element_key: Words, at: Growing, cursor: Ints, budget: int, quota: int) -> int:
    """Go on with the enumeration, smaller downsets first, for about ``quota`` relations.

    cursor: [next downset to expand, count, relations], updated. Returns DONE, PAUSED, NEEDS_ROOM (the
    caller must enlarge the arrays) or OVER_BUDGET (more than ``budget`` downsets).
    """
    words, key, parent, via, up_start, up_element, up_to, table = at
    elements = len(element_key)
    width = words.shape[1]
    mask = np.uint64(len(table) - 1)
    current, count, relations = cursor[0], cursor[1], cursor[2]
    stop = relations + quota
    while current < count:
        room = count + elements < len(key) and relations + elements < len(up_to)
        if not room or 2 * (count + elements) > len(table):
            cursor[0], cursor[1], cursor[2] = current, count, relations
            return NEEDS_ROOM
        if relations >= stop:
            cursor[0], cursor[1], cursor[2] = current, count, relations
            return PAUSED
        # What can be added: what the parent could add, and what its last element has set free.
        first = relations
        if current == 0:
            for v in range(elements):
                if order.before_start[v] == order.before_start[v + 1]:
                    up_element[relations] = v
                    relations += 1
        else:
            last = via[current]
            for e in range(up_start[parent[current]], up_start[parent[current] + 1]):
                if up_element[e] != last:
                    up_element[relations] = up_element[e]
                    relations += 1
            for e in range(order.after_start[last], order.after_start[last + 1]):
                v = order.after[e]
                free = True
                for q in range(order.before_start[v], order.before_start[v + 1]):
                    u = order.before[q]
                    if (words[current, u >> 6] >> np.uint64(u & 63)) & np.uint64(1) == np.uint64(0):
                        free = False
                        break
                if free:
                    up_element[relations] = v
                    relations += 1
        up_start[current] = first
        up_start[current + 1] = relations
        for e in range(first, relations):
            v = up_element[e]
            word, bit = v >> 6, np.uint64(1) << np.uint64(v & 63)
            wanted = key[current] ^ element_key[v]
            slot = np.int64(wanted & mask)
            while True:
                found = table[slot]
                if found < 0:
                    break
                if key[found] == wanted:
                    same = True
                    for w in range(width):
                        expected = words[current, w] | bit if w == word else words[current, w]
                        if words[found, w] != expected:
                            same = False
                            break
                    if same:
                        break
                slot = (slot + 1) & (len(table) - 1)
            if found < 0:
                if count >= budget:
                    return OVER_BUDGET
                found = count
                count += 1
                for w in range(width):
                    words[found, w] = words[current, w]
                words[found, word] |= bit
                key[found] = wanted
                parent[found] = current
                via[found] = v
                table[slot] = found
            up_to[e] = found
        current += 1
    cursor[0], cursor[1], cursor[2] = current, count, relations
    return DONE


@njit(cache=True)
def add_up(parent: Ids, via: Ids, weight: Floats) -> Floats:
    """The total weight of every downset."""
    total = np.zeros(len(parent))
    for i in range(1, len(parent)):
        total[i] = total[parent[i]] + weight[via[i]]
    return total


class Lattice(NamedTuple):
    """What the dynamic programme reads of a finished lattice; ``Growing`` tells the fields."""

    up_start: Ints
    up_element: Ids
    up_to: Ids


class Costs(NamedTuple):
    """Costs of super-operators and hyperedges, as in ``coarsen.Contracted``."""

    acc_s: Floats
    cpu_s: Floats
    supported: Flags
    static_bytes: Floats
    saved_bytes: Floats
    workspace_bytes: Floats
    nets_start: Ints
    nets: Ints
    net_size: Ints
    net_s: Floats


class Limits(NamedTuple):
    """Devices and caps. ``in_flight[d]``: micro-batches kept by the d-th part from the end, [parts + 1].

    overlapped: a load is the larger of compute and transfers instead of their sum.
    cpu_worth: seconds of accelerator work that a second of a CPU can take over, at most.
    """

    accelerators: int
    cpus: int
    acc_bytes: float
    cpu_bytes: float
    in_flight: Floats
    overlapped: bool
    cpu_worth: float


class Walk(NamedTuple):
    """The state of `walk` between two calls.

    best, came_from: [downsets, states], state = cpus used * (accelerators + 1) + accelerators used;
    came_from = 2 * downset before + (1 if the last part is on a CPU). cursor: [downset J, depth or
    -1, memory was short (0 or 1), pairs seen]. bound: [1] only values below it are of interest.
    live: [states] of J. seen: [downsets] last J it was reached from. inside: [nets] elements of the
    set on each net. path_*: the walk's stack; path_sum columns: accelerator, CPU, transfers,
    static, saved, workspace.
    """

    best: Floats
    came_from: Ids
    remaining_s: Floats
    cursor: Ints
    bound: Floats
    live: Floats
    seen: Ids
    inside: Ints
    path_at: Ints
    path_next: Ints
    path_element: Ints
    path_sum: Floats


@njit(cache=True)
def walk(lattice: Lattice, costs: Costs, limits: Limits, at: Walk, quota: int) -> int:
    """Exact push dynamic programme over pairs of downsets J < I (NeurIPS 2020, section 5.1).

    best[I, s] is the least possible largest load when I is cut into a chain with exactly the devices
    of state s. From each J, smallest first, the lattice is walked upwards depth-first; adding an
    element updates the load of I minus J in the number of its hyperedges. Compute, CPU time and
    memory only grow along the walk, so reaching ``bound`` in them ends a branch; transfers do not
    grow, so they end nothing. Works on about ``quota`` pairs; returns DONE or PAUSED.
    """
    up_start, up_element, up_to = lattice
    best, cursor, live = at.best, at.cursor, at.live
    inside, sums = at.inside, at.path_sum
    row = limits.accelerators + 1
    states = best.shape[1]
    full = len(best) - 1
    pairs = 0
    source, depth = cursor[0], cursor[1]
    while source < full:
        if depth < 0:
            if not _open(source, limits, at):
                source += 1
                continue
            depth = 0
            at.path_at[0] = source
            at.path_next[0] = up_start[source]
            sums[0, :] = 0.0
        acc_free, cpu_free, kept = _free(limits, live)
        while depth >= 0:
            here = at.path_at[depth]
            if at.path_next[depth] >= up_start[here + 1]:
                if depth > 0:
                    v = at.path_element[depth]
                    for q in range(costs.nets_start[v], costs.nets_start[v + 1]):
                        inside[costs.nets[q]] -= 1
                depth -= 1
                continue
            e = at.path_next[depth]
            at.path_next[depth] += 1
            target = up_to[e]
            if at.seen[target] == source:
                continue
            at.seen[target] = source
            v = up_element[e]
            acc_s = sums[depth, 0] + costs.acc_s[v]
            cpu_s = sums[depth, 1] + costs.cpu_s[v]
            static = sums[depth, 3] + costs.static_bytes[v]
            saved = sums[depth, 4] + costs.saved_bytes[v]
            workspace = max(sums[depth, 5], costs.workspace_bytes[v])
            bound = at.bound[0]
            nbytes = static + kept * saved + workspace
            # acc_s is inf once an operator in the set cannot run on an accelerator
            if not costs.supported[v]:
                acc_s = np.inf
            on_acc = acc_free and acc_s < bound
            on_cpu = cpu_free and cpu_s < bound
            if on_acc and nbytes > limits.acc_bytes:
                on_acc = False
                cursor[2] = 1
            if on_cpu and nbytes > limits.cpu_bytes:
                on_cpu = False
                cursor[2] = 1
            if not on_acc and not on_cpu:
                continue
            moved = sums[depth, 2]
            for q in range(costs.nets_start[v], costs.nets_start[v + 1]):
                net = costs.nets[q]
                inside[net] += 1
                if inside[net] == 1:
                    moved += costs.net_s[net]
                if inside[net] == costs.net_size[net]:
                    moved -= costs.net_s[net]
            depth += 1
            pairs += 1
            at.path_at[depth] = target
            at.path_next[depth] = up_start[target]
            at.path_element[depth] = v
            sums[depth, 0] = acc_s
            sums[depth, 1] = cpu_s
            sums[depth, 2] = moved
            sums[depth, 3] = static
            sums[depth, 4] = saved
            sums[depth, 5] = workspace
            if on_acc:
                load = max(acc_s, moved) if limits.overlapped else acc_s + moved
                if load < bound:
                    _relax(source, target, load, False, static + workspace, saved, limits, at)
            if on_cpu:
                _relax(source, target, cpu_s, True, static + workspace, saved, limits, at)
            if target == full:
                for s in range(states):
                    at.bound[0] = min(at.bound[0], best[full, s])
            if pairs >= quota:
                cursor[0], cursor[1] = source, depth
                cursor[3] += pairs
                return PAUSED
        source += 1
    cursor[0], cursor[1] = source, -1
    cursor[3] += pairs
    return DONE


@njit(cache=True)
def _open(source: int, limits: Limits, at: Walk) -> bool:
    """Gather the states of ``source`` worth going on from; whether there is any.

    A state is not if fewer devices do as well, or if what remains is more than the devices left can
    do below the bound.
    """
    row = limits.accelerators + 1
    bound = at.bound[0]
    remaining = at.remaining_s[source] * (1 - 1e-9)
    some = False
    for cpus in range(limits.cpus + 1):
        for accelerators in range(row):
            s = cpus * row + accelerators
            value = at.best[source, s]
            left = (limits.accelerators - accelerators) * bound + (limits.cpus - cpus) * bound * limits.cpu_worth
            dominated = False
            for c in range(cpus + 1):
                for a in range(accelerators + 1):
                    if (c < cpus or a < accelerators) and at.best[source, c * row + a] <= value:
                        dominated = True
            if value < bound and remaining <= left and not dominated:
                at.live[s] = value
                some = True
            else:
                at.live[s] = np.inf
    return some


@njit(cache=True)
def _free(limits: Limits, live: Floats) -> tuple[bool, bool, float]:
    """Whether some live state has an accelerator left, a CPU left, and the fewest micro-batches in flight."""
    row = limits.accelerators + 1
    acc_free, cpu_free, kept = False, False, np.inf
    for s in range(len(live)):
        if live[s] < np.inf:
            cpus, accelerators = s // row, s % row
            acc_free = acc_free or accelerators < limits.accelerators
            cpu_free = cpu_free or cpus < limits.cpus
            kept = min(kept, limits.in_flight[cpus + accelerators + 1])
    return acc_free, cpu_free, kept


@njit(cache=True)
def _relax(
    source: int, target: int, load: float, on_cpu: bool, fixed: float, saved: float, limits: Limits, at: Walk
) -> None:
    """Offer ``load`` for the part between two downsets to every live state."""
    row = limits.accelerators + 1
    cap = limits.cpu_bytes if on_cpu else limits.acc_bytes
    step = row if on_cpu else 1
    for s in range(len(at.live)):
        if at.live[s] == np.inf:
            continue
        cpus, accelerators = s // row, s % row
        if (cpus >= limits.cpus) if on_cpu else (accelerators >= limits.accelerators):
            continue
        value = max(at.live[s], load)
        if value >= at.best[target, s + step]:
            continue
        if fixed + limits.in_flight[cpus + accelerators + 1] * saved > cap:
            at.cursor[2] = 1
            continue
        at.best[target, s + step] = value
        at.came_from[target, s + step] = 2 * source + (1 if on_cpu else 0)
