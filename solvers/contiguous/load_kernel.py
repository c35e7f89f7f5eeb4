"""The largest load: what it brings to the walk over downsets, and its best cut of one order.

A load is compute plus the hyperedges that a part splits (Tarnawski et al., NeurIPS 2020, section 3): the plain case,
fast. `variant_kernel` has the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.contiguous.lattice_kernel import Lattice, holds
from solvers.contiguous.walk_kernel import LIVE, SHORT, SOURCE, Stack, climber
from solvers.kernels.arrays import Bools, Floats, Ints, Words
from solvers.kernels.lazy import njit
from solvers.kernels.uncounted import inlined, uncounted

Ids = NDArray[np.int32]


class Costs(NamedTuple):
    """Costs of super-operators and hyperedges, as in ``coarsening.Contracted``; in seconds per sample and bytes.

    acc_s, cpu_s: [nodes]. supported: [nodes] whether an accelerator can run it. static_bytes, saved_bytes (per
    micro-batch in flight), workspace_bytes (the largest of a part's counts): [nodes]. nets_start, nets: the hyperedges
    that a node is on; pins_start, pins: the nodes on a hyperedge. net_size: [nets] nodes on it. net_s: [nets] what
    each device pays whose part splits it.
    """

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


class Limits(NamedTuple):
    """Devices and caps.

    in_flight: [parts + 1] micro-batches kept by the d-th part from the end. overlapped: a load is the larger of compute
    and transfers instead of their sum. cpu_worth: seconds of accelerator work that a second of a CPU can take over, at
    most.
    """

    accelerators: int
    cpus: int
    acc_bytes: float
    cpu_bytes: float
    in_flight: Floats
    overlapped: bool
    cpu_worth: float


class Load(NamedTuple):
    """The objective of `walk_load`, and of `cut_order` with an order's positions for downsets.

    A state is CPUs used * (accelerators + 1) + accelerators used.
    best: [downsets, states] least possible largest load, s. came_from: [downsets, states] 2 * downset before + (1 if
    the last part is on a CPU). remaining_s: [downsets] least sum of the loads of what is outside, as accelerator time.
    bound: [1] only loads below it are of interest; it falls.
    most: [2] accelerator seconds that may be left over after a part on an accelerator, or on a CPU; -1 without one.
    in_flight: [1] the fewest micro-batches that a part before J keeps. fewer: [accelerators + 1] scratch.
    inside: [nets] nodes of the part on each hyperedge; behind: [nets] whether J is on it.
    The rest is of the part at every depth of the walk, [depth]: moved_s of the hyperedges that it splits, settled_s of
    those that stay split whatever joins it.
    """

    costs: Costs
    limits: Limits
    best: Floats
    came_from: Ids
    remaining_s: Floats
    bound: Floats
    most: Floats
    in_flight: Floats
    fewer: Floats
    inside: Ints
    behind: Bools
    acc_s: Floats
    cpu_s: Floats
    moved_s: Floats
    settled_s: Floats
    static_bytes: Floats
    saved_bytes: Floats
    workspace_bytes: Floats


@inlined
def join_nets(costs: Costs, inside: Ints, v: int, moved_s: float) -> float:
    """Add a node to a set: update ``inside``; returns the seconds of the hyperedges that the set then splits, which
    were ``moved_s``."""
    for q in range(costs.nets_start[v], costs.nets_start[v + 1]):
        net = costs.nets[q]
        inside[net] += 1
        if inside[net] == 1:
            moved_s += costs.net_s[net]
        if inside[net] == costs.net_size[net]:
            moved_s -= costs.net_s[net]
    return moved_s


@inlined
def leave_nets(costs: Costs, inside: Ints, v: int) -> None:
    """Take a node out of a set again."""
    for q in range(costs.nets_start[v], costs.nets_start[v + 1]):
        inside[costs.nets[q]] -= 1


@inlined
def _open(source: int, lattice: Lattice, stack: Stack, load: Load) -> int:
    count = _live(source, stack, load)
    if count == 0:
        return 0
    _reach(stack, count, load)
    costs = load.costs
    for net in range(len(load.behind)):
        load.behind[net] = False
        for p in range(costs.pins_start[net], costs.pins_start[net + 1]):
            if holds(lattice.words, source, costs.pins[p]):
                load.behind[net] = True
                break
    _clear(load)
    return count


@inlined
def _live(source: int, stack: Stack, load: Load) -> int:
    """Gather the states of ``source`` worth going on from, and count them.

    A state is not if fewer devices do as well, or if what remains is more than the devices left can do below the bound.
    """
    limits, bound = load.limits, load.bound[0]
    row = limits.accelerators + 1
    count = 0
    load.fewer[:] = np.inf  # the best with at most so many accelerators, and fewer CPUs
    for cpus in range(limits.cpus + 1):
        best = np.inf  # with no more accelerators and CPUs, but not all the same
        for accelerators in range(row):
            s = cpus * row + accelerators
            value = load.best[source, s]
            best = min(best, load.fewer[accelerators])
            within = load.remaining_s[source] <= _capacity(limits, cpus, accelerators, bound)
            if value < bound and value < best and within:
                stack.live[count] = s
                count += 1
            best = min(best, value)
            load.fewer[accelerators] = best
    return count


@inlined
def _reach(stack: Stack, count: int, load: Load) -> None:
    """Set ``most`` and ``in_flight`` for the states gathered."""
    limits, bound = load.limits, load.bound[0]
    row = limits.accelerators + 1
    load.most[:] = -1.0
    load.in_flight[0] = np.inf
    for i in range(count):
        cpus, accelerators = stack.live[i] // row, stack.live[i] % row
        if accelerators < limits.accelerators:
            load.most[0] = max(load.most[0], _capacity(limits, cpus, accelerators + 1, bound))
        if cpus < limits.cpus:
            load.most[1] = max(load.most[1], _capacity(limits, cpus + 1, accelerators, bound))
        load.in_flight[0] = min(load.in_flight[0], limits.in_flight[cpus + accelerators + 1])


@inlined
def _capacity(limits: Limits, cpus: int, accelerators: int, bound: float) -> float:
    """Accelerator seconds that can still be done below the bound with this many devices used."""
    left = (limits.accelerators - accelerators) * bound + (limits.cpus - cpus) * bound * limits.cpu_worth
    return left * (1 + 1e-9)


@inlined
def _clear(load: Load) -> None:
    """Make the part at depth 0 empty."""
    load.acc_s[0] = load.cpu_s[0] = load.moved_s[0] = load.settled_s[0] = 0.0
    load.static_bytes[0] = load.saved_bytes[0] = load.workspace_bytes[0] = 0.0


@inlined
def _extend(below: int, depth: int, v: int, load: Load) -> None:
    """Make the part at ``depth`` from the one below it and a node, but for the hyperedges."""
    costs = load.costs
    # inf once a node of the part cannot run on an accelerator
    load.acc_s[depth] = load.acc_s[below] + costs.acc_s[v] if costs.supported[v] else np.inf
    load.cpu_s[depth] = load.cpu_s[below] + costs.cpu_s[v]
    load.static_bytes[depth] = load.static_bytes[below] + costs.static_bytes[v]
    load.saved_bytes[depth] = load.saved_bytes[below] + costs.saved_bytes[v]
    load.workspace_bytes[depth] = max(load.workspace_bytes[below], costs.workspace_bytes[v])


@inlined
def _acc_s(depth: int, moved_s: float, load: Load) -> float:
    """The load on an accelerator of the part at ``depth`` with so many seconds of transfers."""
    acc_s = load.acc_s[depth]
    return float(max(acc_s, moved_s) if load.limits.overlapped else acc_s + moved_s)


@inlined
def _nbytes(depth: int, in_flight: float, load: Load) -> float:
    return float(load.static_bytes[depth] + in_flight * load.saved_bytes[depth] + load.workspace_bytes[depth])


@inlined
def _add(depth: int, stack: Stack, load: Load) -> bool:
    """Compute, CPU time, memory and the transfers with J only grow as a part grows, so reaching the bound in them
    ends a branch; transfers with what comes later may shrink, so they end nothing."""
    costs, limits, bound = load.costs, load.limits, load.bound[0]
    v, below = stack.element[depth], depth - 1
    _extend(below, depth, v, load)
    settled_s = load.settled_s[below]
    for q in range(costs.nets_start[v], costs.nets_start[v + 1]):
        net = costs.nets[q]
        if load.behind[net] and load.inside[net] == 0:
            settled_s += costs.net_s[net]
    on_acc = load.most[0] >= 0 and _acc_s(depth, settled_s, load) < bound
    on_cpu = load.most[1] >= 0 and load.cpu_s[depth] < bound
    nbytes = _nbytes(depth, load.in_flight[0], load)
    if on_acc and nbytes > limits.acc_bytes:
        on_acc = False
        stack.cursor[SHORT] = 1
    if on_cpu and nbytes > limits.cpu_bytes:
        on_cpu = False
        stack.cursor[SHORT] = 1
    if not on_acc and not on_cpu:
        return False
    load.settled_s[depth] = settled_s
    load.moved_s[depth] = moved_s = join_nets(costs, load.inside, v, load.moved_s[below])
    if on_acc:
        _relax(depth, stack, load, False, _acc_s(depth, moved_s, load), bound)
    if on_cpu:
        _relax(depth, stack, load, True, load.cpu_s[depth], bound)
    return True


@inlined
def _relax(depth: int, stack: Stack, load: Load, on_cpu: bool, seconds: float, bound: float) -> None:
    """Go from every live state of J to the downset reached, with the part at ``depth`` on one more device."""
    limits = load.limits
    source, target = stack.cursor[SOURCE], stack.downset[depth]
    if seconds >= bound or load.remaining_s[target] > load.most[int(on_cpu)]:
        return
    row = limits.accelerators + 1
    step, cap = (row, limits.cpu_bytes) if on_cpu else (1, limits.acc_bytes)
    for i in range(stack.cursor[LIVE]):
        s = stack.live[i]
        if (s // row >= limits.cpus) if on_cpu else (s % row >= limits.accelerators):
            continue
        value = max(load.best[source, s], seconds)
        if value >= load.best[target, s + step]:
            continue
        if _nbytes(depth, limits.in_flight[s // row + s % row + 1], load) > cap:
            stack.cursor[SHORT] = 1
            continue
        load.best[target, s + step] = value
        load.came_from[target, s + step] = 2 * source + int(on_cpu)
        if target == len(load.best) - 1:
            load.bound[0] = min(load.bound[0], value)


@inlined
def _remove(v: int, load: Load) -> None:
    leave_nets(load.costs, load.inside, v)


_climb = climber(_open, _add, _remove)


@uncounted
def walk_load(lattice: Lattice, stack: Stack, load: Load, quota: int) -> int:
    """The exact programme (NeurIPS 2020, section 5.1): see `walk_kernel`; DONE or PAUSED."""
    return _climb(lattice, stack, load, quota)


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


@uncounted
def cut_order(order: Ints, load: Load, begin: int, end: int) -> None:
    """The best cut of ``order`` (from the end of the pipeline to its start) with a load below the bound, which stays.

    Fills the table with the parts that start at the positions from ``begin`` to ``end``; a row is a position, "the
    first i super-operators of the order". Parts grow in place, at depth 0, until their compute reaches the bound.
    """
    limits, bound = load.limits, load.bound[0]
    states = load.best.shape[1]
    for first in range(begin, end):
        reached = False
        for s in range(states):
            reached = reached or load.best[first, s] < bound
        if not reached:
            continue
        load.inside[:] = 0
        _clear(load)
        for last in range(first, len(order)):
            _extend(0, 0, order[last], load)
            if load.acc_s[0] >= bound and (limits.cpus == 0 or load.cpu_s[0] >= bound):
                break
            load.moved_s[0] = join_nets(load.costs, load.inside, order[last], load.moved_s[0])
            _take_all(first, last + 1, load)


@inlined
def _take_all(first: int, reached: int, load: Load) -> None:
    """Go from every state of position ``first`` to position ``reached`` with the part at depth 0."""
    limits, bound = load.limits, load.bound[0]
    row = limits.accelerators + 1
    acc_s, cpu_s = _acc_s(0, load.moved_s[0], load), load.cpu_s[0]
    for s in range(load.best.shape[1]):
        before = load.best[first, s]
        if before >= bound:
            continue
        cpus, accelerators = s // row, s % row
        nbytes = _nbytes(0, limits.in_flight[cpus + accelerators + 1], load)
        if accelerators < limits.accelerators and acc_s < bound and nbytes <= limits.acc_bytes:
            value = max(before, acc_s)
            if value < load.best[reached, s + 1]:
                load.best[reached, s + 1] = value
                load.came_from[reached, s + 1] = 2 * first
        if cpus < limits.cpus and cpu_s < bound and nbytes <= limits.cpu_bytes:
            value = max(before, cpu_s)
            if value < load.best[reached, s + row]:
                load.best[reached, s + row] = value
                load.came_from[reached, s + row] = 2 * first + 1
