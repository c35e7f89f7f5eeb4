"""Enumerating downsets as bitsets, and the exact dynamic programme over pairs of them.

Both kernels keep their whole state in arrays and return after a bounded amount of work, so that
the caller can look at the clock and a stop signal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.kernels.arrays import Bools, Floats, Ints, Words

Ids = NDArray[np.int32]

DONE, PAUSED, NEEDS_ROOM, OVER_BUDGET = 0, 1, 2, 3


class Order(NamedTuple):
    """A partial order: element i comes after before[before_start[i]:before_start[i + 1]], and so on.

    `walk` needs every element to have a smaller number than those it comes after.
    """

    before_start: Ints
    before: Ints
    after_start: Ints
    after: Ints


class Growing(NamedTuple):
    """The lattice while it grows; the first ``count`` rows (``relations`` entries) are in use.

    words: [downsets, words] bitset. key: [downsets] hash, the xor of the members' random keys.
    parent, via: the downset it was first reached from, and the element added. up_start, up_element,
    up_to: cover relations, downset i goes up by up_element[e] (ascending) to up_to[e]. table: open
    addressing.
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
def file_keys(table: Ids, key: Words, first: int, end: int) -> None:
    """Put the downsets from ``first`` to ``end`` into a table whose size is a power of two."""
    mask = np.uint64(len(table) - 1)
    for i in range(first, end):
        slot = np.int64(key[i] & mask)
        while table[slot] >= 0:
            slot = (slot + 1) & (len(table) - 1)
        table[slot] = i


@njit(cache=True)
def _sort(items: Ids, first: int, end: int) -> None:
    """Insertion sort of items[first:end]: it is short and nearly sorted."""
    for i in range(first + 1, end):
        item = items[i]
        j = i
        while j > first and items[j - 1] > item:
            items[j] = items[j - 1]
            j -= 1
        items[j] = item


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
        _sort(up_element, first, relations)
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

    words: Words
    up_start: Ints
    up_element: Ids
    up_to: Ids


class Costs(NamedTuple):
    """Costs of super-operators and hyperedges, as in ``coarsen.Contracted``."""

    acc_s: Floats
    cpu_s: Floats
    supported: Bools
    static_bytes: Floats
    saved_bytes: Floats
    workspace_bytes: Floats
    nets_start: Ints
    nets: Ints
    pins_start: Ints
    pins: Ints
    net_size: Ints
    net_s: Floats


@njit(cache=True)
def holds(words: Words, downset: int, element: int) -> bool:
    """Whether an element is in a downset."""
    return bool((words[downset, element >> 6] >> np.uint64(element & 63)) & np.uint64(1))


@njit(cache=True)
def cuts(words: Words, parent: Ids, via: Ids, costs: Costs, cut: Floats, first: int, end: int) -> None:
    """Fill in the seconds of all hyperedges that every downset from ``first`` to ``end`` splits.

    cut: [downsets], 0 for the empty one, filled in up to ``first``.
    """
    for i in range(max(first, 1), end):
        v = via[i]
        total = cut[parent[i]]
        for q in range(costs.nets_start[v], costs.nets_start[v + 1]):
            net = costs.nets[q]
            number = 0
            for p in range(costs.pins_start[net], costs.pins_start[net + 1]):
                number += holds(words, i, costs.pins[p])
            if number == 1:
                total += costs.net_s[net]
            if number == costs.net_size[net]:
                total -= costs.net_s[net]
        cut[i] = total


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
    came_from = 2 * downset before + (1 if the last part is on a CPU). remaining_s: [downsets] least
    sum of loads of what is left, as accelerator time. cursor: [downset J, depth or -1, memory was
    short (0 or 1), pairs seen]. bound: [1] only values below it are of interest.
    live, live_count: states of J that are worth going on from. inside: [nets] elements of the set on
    each net; behind: [nets] whether J is on it. path_*: the walk's stack; path_sum columns:
    accelerator, CPU, transfers, static, saved, workspace, transfers with J.
    """

    best: Floats
    came_from: Ids
    remaining_s: Floats
    cursor: Ints
    bound: Floats
    live: Ints
    live_count: Ints
    inside: Ints
    behind: Bools
    path_at: Ints
    path_next: Ints
    path_element: Ints
    path_sum: Floats


@njit(cache=True)
def walk(lattice: Lattice, costs: Costs, limits: Limits, at: Walk, quota: int) -> int:
    """Exact push dynamic programme over pairs of downsets J < I (NeurIPS 2020, section 5.1).

    best[I, s] is the least possible largest load when I is cut into a chain with exactly the devices
    of state s. From each J, smallest first, the lattice is walked upwards depth-first, adding elements
    in descending order, so that every I is met once (the numbering makes each step a downset); an
    element updates the load of I minus J in the number of its hyperedges. Compute, CPU time,
    memory and the transfers with J only grow along the walk, so reaching ``bound`` in them ends a
    branch; transfers with what comes later may shrink, so they end nothing. Works on
    about ``quota`` pairs, or as many states of J; returns DONE or PAUSED.
    """
    _, up_start, up_element, up_to = lattice
    acc_of, cpu_of, supported, static_of, saved_of, workspace_of = costs[:6]
    nets_start, nets, _, _, net_size, net_s = costs[6:]
    accelerators, cpus, acc_bytes, cpu_bytes, in_flight, overlapped, _ = limits
    best, came_from, remaining_s, cursor, bounds, live, live_count, inside, behind = at[:9]
    path_at, path_next, path_element, sums = at[9:]
    row = accelerators + 1
    full = len(best) - 1
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
            path_element[0] = len(supported)
            sums[0, :] = 0.0
        acc_most, cpu_most, kept = _reach(limits, live, live_count[0], bounds[0])
        while depth >= 0:
            e = path_next[depth]
            last = path_element[depth]
            if e >= up_start[path_at[depth] + 1] or up_element[e] > last:
                if depth > 0:
                    for q in range(nets_start[last], nets_start[last + 1]):
                        inside[nets[q]] -= 1
                depth -= 1
                continue
            path_next[depth] = e + 1
            target = up_to[e]
            v = up_element[e]
            bound = bounds[0]
            # inf once an operator of the set cannot run on an accelerator
            acc_s = sums[depth, 0] + acc_of[v] if supported[v] else np.inf
            cpu_s = sums[depth, 1] + cpu_of[v]
            static = sums[depth, 3] + static_of[v]
            saved = sums[depth, 4] + saved_of[v]
            workspace = max(sums[depth, 5], workspace_of[v])
            nbytes = static + kept * saved + workspace
            settled = sums[depth, 6]
            for q in range(nets_start[v], nets_start[v + 1]):
                if behind[nets[q]] and inside[nets[q]] == 0:
                    settled += net_s[nets[q]]
            on_acc = acc_most >= 0 and (max(acc_s, settled) if overlapped else acc_s + settled) < bound
            on_cpu = cpu_most >= 0 and cpu_s < bound
            if on_acc and nbytes > acc_bytes:
                on_acc = False
                cursor[2] = 1
            if on_cpu and nbytes > cpu_bytes:
                on_cpu = False
                cursor[2] = 1
            if not on_acc and not on_cpu:
                continue
            moved = sums[depth, 2]
            for q in range(nets_start[v], nets_start[v + 1]):
                net = nets[q]
                number = inside[net] + 1
                inside[net] = number
                if number == 1:
                    moved += net_s[net]
                if number == net_size[net]:
                    moved -= net_s[net]
            depth += 1
            pairs += 1
            path_at[depth] = target
            path_next[depth] = up_start[target]
            path_element[depth] = v
            sums[depth, 0] = acc_s
            sums[depth, 1] = cpu_s
            sums[depth, 2] = moved
            sums[depth, 3] = static
            sums[depth, 4] = saved
            sums[depth, 5] = workspace
            sums[depth, 6] = settled
            remaining = remaining_s[target]
            for on_a_cpu in range(2):
                if on_a_cpu:
                    load, most, possible, cap, step = cpu_s, cpu_most, on_cpu, cpu_bytes, row
                else:
                    load = max(acc_s, moved) if overlapped else acc_s + moved
                    most, possible, cap, step = acc_most, on_acc, acc_bytes, 1
                if not possible or load >= bound or remaining > most:
                    continue
                for i in range(live_count[0]):
                    s = live[i]
                    if (s // row >= cpus) if on_a_cpu else (s % row >= accelerators):
                        continue
                    value = max(best[source, s], load)
                    if value >= best[target, s + step]:
                        continue
                    if static + in_flight[s // row + s % row + 1] * saved + workspace > cap:
                        cursor[2] = 1
                        continue
                    best[target, s + step] = value
                    came_from[target, s + step] = 2 * source + on_a_cpu
                    if target == full:
                        bounds[0] = min(bounds[0], value)
            if pairs >= quota:
                cursor[0], cursor[1] = source, depth
                cursor[3] += pairs
                return PAUSED
        source += 1
    cursor[0], cursor[1] = source, -1
    cursor[3] += pairs
    return DONE if source >= full else PAUSED


@njit(cache=True)
def _open(source: int, limits: Limits, at: Walk) -> bool:
    """Gather the states of ``source`` worth going on from; whether there is any.

    A state is not if fewer devices do as well, or if what remains is more than the devices left can
    do below the bound.
    """
    row = limits.accelerators + 1
    bound = at.bound[0]
    count = 0
    with_fewer = np.full(row, np.inf)  # the best with at most so many accelerators, and fewer CPUs
    for cpus in range(limits.cpus + 1):
        best = np.inf  # with fewer accelerators or CPUs
        for accelerators in range(row):
            s = cpus * row + accelerators
            value = at.best[source, s]
            best = min(best, with_fewer[accelerators])
            within = at.remaining_s[source] <= _capacity(limits, cpus, accelerators, bound)
            if value < bound and value < best and within:
                at.live[count] = s
                count += 1
            best = min(best, value)
            with_fewer[accelerators] = best
    at.live_count[0] = count
    return count > 0


@njit(cache=True)
def _look_behind(source: int, lattice: Lattice, costs: Costs, behind: Bools) -> None:
    """Note which hyperedges ``source`` is on."""
    for net in range(len(behind)):
        behind[net] = False
        for p in range(costs.pins_start[net], costs.pins_start[net + 1]):
            if holds(lattice.words, source, costs.pins[p]):
                behind[net] = True
                break


@njit(cache=True)
def _capacity(limits: Limits, cpus: int, accelerators: int, bound: float) -> float:
    """Accelerator seconds that can still be done below the bound with this many devices used."""
    left = (limits.accelerators - accelerators) * bound + (limits.cpus - cpus) * bound * limits.cpu_worth
    return left * (1 + 1e-9)


@njit(cache=True)
def _reach(limits: Limits, live: Ints, count: int, bound: float) -> tuple[float, float, float]:
    """The most work that can be left over after one more accelerator, or CPU, is used (-1: none is
    left), and the fewest micro-batches that part keeps in flight."""
    row = limits.accelerators + 1
    acc_most, cpu_most, kept = -1.0, -1.0, np.inf
    for i in range(count):
        cpus, accelerators = live[i] // row, live[i] % row
        if accelerators < limits.accelerators:
            acc_most = max(acc_most, _capacity(limits, cpus, accelerators + 1, bound))
        if cpus < limits.cpus:
            cpu_most = max(cpu_most, _capacity(limits, cpus + 1, accelerators, bound))
        kept = min(kept, limits.in_flight[cpus + accelerators + 1])
    return acc_most, cpu_most, kept
