"""How long a call must last that holds a given stretch of a path: minimum cuts of messages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit
from solvers.kernels.plain import BELOW, ONE, TWO, ZERO
from solvers.latency.latency_kernel import Calls
from solvers.latency.max_flow_kernel import Network, flow, join

FREE, INSIDE, OUTSIDE = 0, 1, 2
"""What is known of an operator: nothing; it is in the call; it is not."""


class Order(NamedTuple):
    """Who comes before and after whom, and who must share a device.

    above, below: [operators, operators] whether row v has column u as a (transitive) predecessor,
    successor. group_of: [operators]; member_start, member: CSR of the groups; group_bytes: [groups];
    can_run: [groups] whether any accelerator takes the group. acc_s, cpu_s: [operators] least
    seconds on an accelerator and on a CPU; acc_bytes: the largest cap.
    """

    above: Bools
    below: Bools
    group_of: Ints
    member_start: Ints
    member: Ints
    group_bytes: Floats
    can_run: Bools
    acc_s: Floats
    cpu_s: Floats
    acc_bytes: float


class Stretch(NamedTuple):
    """What `stretches_from` knows while a stretch grows: who is inside; who is before, and after, one that
    is; and which groups are counted. [operators], but counted: [groups]."""

    inside: Bools
    above: Bools
    below: Bools
    counted: Bools
    todo: Ints


@njit(cache=True)
def network_for(at: Calls) -> Network:
    """Room for the messages of ``at``."""
    operators, messages = len(at.order), len(at.message_s)
    nodes = operators + 2 * messages + 2
    arcs = 4 * len(at.reader) + 10 * messages + 4 * operators + 4 * len(at.before) + 16
    return Network(
        np.full(nodes, -1, np.int64),
        np.zeros(arcs, np.int64),
        np.zeros(arcs, np.int64),
        np.zeros(arcs),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.full(operators, -1, np.int64),
    )


@njit(cache=True)
def _cut(at: Calls, order: Order, known: Ints, reach: Stretch, alone: bool, net: Network) -> float:
    """The least of: messages between operators inside and outside, and compute of free ones taken in.

    Over all ways to decide on the free operators, where one takes along all between it and the stretch
    and, if ``alone``, its group. Node 0 is inside, node 1 outside.
    """
    above, below = reach.above, reach.below
    operators = len(known)
    inf = np.inf
    net.head[:2] = -1
    source, sink, nodes, arcs = ZERO, ONE, TWO, ZERO
    settled = 0.0
    net.node_of[:] = -1
    for u in range(operators):
        for e in range(at.sent_start[u], at.sent_start[u + 1]):
            message = at.sent[e]
            seconds = at.message_s[message]
            if seconds <= 0:
                continue
            inside, outside, free = known[u] == INSIDE, known[u] == OUTSIDE, int(known[u] == FREE)
            for r in range(at.reader_start[message], at.reader_start[message + 1]):
                state = known[at.reader[r]]
                inside = inside or state == INSIDE
                outside = outside or state == OUTSIDE
                free += state == FREE
            if inside and outside:
                settled += seconds
                continue
            if free + inside + outside < 2 or free == 0:
                continue
            enter, leave = nodes, nodes + 1
            net.head[enter] = net.head[leave] = -1
            nodes += 2
            arcs = join(net, arcs, enter, leave, seconds, 0.0)
            if inside:
                arcs = join(net, arcs, source, enter, inf, 0.0)
            if outside:
                arcs = join(net, arcs, leave, sink, inf, 0.0)
            for r in range(at.reader_start[message] - 1, at.reader_start[message + 1]):
                v = at.reader[r] if r >= at.reader_start[message] else u
                if known[v] != FREE:
                    continue
                if net.node_of[v] < 0:
                    net.node_of[v] = nodes
                    net.head[nodes] = -1
                    nodes += 1
                arcs = join(net, arcs, net.node_of[v], enter, inf, 0.0)
                arcs = join(net, arcs, leave, net.node_of[v], inf, 0.0)
    for v in range(operators):
        if known[v] == FREE and net.node_of[v] < 0 and (above[v] or below[v]):
            net.node_of[v] = nodes
            net.head[nodes] = -1
            nodes += 1
    for v in range(operators):
        if net.node_of[v] < 0:
            continue
        arcs = join(net, arcs, net.node_of[v], sink, order.acc_s[v], 0.0)
        for e in range(at.before_start[v], at.before_start[v + 1]):
            u = at.before[e]
            if net.node_of[u] >= 0 and above[u] and above[v]:
                arcs = join(net, arcs, net.node_of[u], net.node_of[v], inf, 0.0)
            if net.node_of[u] >= 0 and below[u] and below[v]:
                arcs = join(net, arcs, net.node_of[v], net.node_of[u], inf, 0.0)
        group = order.group_of[v]
        before = BELOW
        for m in range(order.member_start[group], order.member_start[group + 1] if alone else 0):
            other = order.member[m]
            if other == v:
                break
            if net.node_of[other] >= 0:
                before = net.node_of[other]
        if before >= 0:
            arcs = join(net, arcs, before, net.node_of[v], inf, inf)
    return settled + flow(net, nodes, 1e-12 * settled)


@njit(cache=True)
def _take_in(order: Order, at: Stretch, v: int, alone: bool) -> float:
    """Put v inside, with all that must then be there too; the bytes added, inf if it cannot be.

    A call has all operators between any two of its own. alone: its device has no other call, so
    groups are in it as a whole; else the device holds at least their bytes.
    """
    inside, above, below, counted, todo = at
    nbytes = 0.0
    todo[0] = v
    inside[v] = True
    count = 1
    while count > 0:
        count -= 1
        x = todo[count]
        group = order.group_of[x]
        if not counted[group]:
            counted[group] = True
            nbytes += order.group_bytes[group] if order.can_run[group] else np.inf
            if alone:
                for m in range(order.member_start[group], order.member_start[group + 1]):
                    other = order.member[m]
                    if not inside[other]:
                        inside[other] = True
                        todo[count] = other
                        count += 1
        for y in range(len(inside)):
            above[y] = above[y] or order.above[x, y]
            below[y] = below[y] or order.below[x, y]
        if count == 0:
            for y in range(len(inside)):
                if not inside[y] and above[y] and below[y]:
                    inside[y] = True
                    todo[count] = y
                    count += 1
    return nbytes


@njit(cache=True)
def _know(order: Order, at: Stretch, path: Ints, on_path: Ints, first: int, end: int, known: Ints) -> float:
    """Fill in ``known`` for path[first : end + 1]; the compute of what is inside, inf if contradictory."""
    compute = 0.0
    for v in range(len(known)):
        where = on_path[v]
        before = first > 0 and order.above[path[first - 1], v]
        after = end + 1 < len(path) and order.below[path[end + 1], v]
        if where >= 0:
            held = first <= where <= end
            if at.inside[v] and not held:
                return np.inf
            known[v] = INSIDE if held else OUTSIDE
        else:
            if at.inside[v] and (before or after):
                return np.inf
            known[v] = INSIDE if at.inside[v] else OUTSIDE if before or after else FREE
        if known[v] == INSIDE:
            compute += order.acc_s[v]
    return compute


@njit(cache=True)
def _rule_out(at: Calls, order: Order, reach: Stretch, alone: bool, known: Ints) -> None:
    """Turn free operators OUTSIDE that cannot be with the stretch in one call: their group is elsewhere,
    or a path between them and the stretch leaves it."""
    above, below = reach.above, reach.below
    for v in range(len(known)):
        if alone and known[v] == FREE:
            group = order.group_of[v]
            for m in range(order.member_start[group], order.member_start[group + 1]):
                if known[order.member[m]] == OUTSIDE:
                    known[v] = OUTSIDE
                    break
    for i in range(len(known)):
        v = at.order[i]
        for e in range(at.before_start[v], at.before_start[v + 1]):
            if known[v] == FREE and below[v] and below[at.before[e]] and known[at.before[e]] == OUTSIDE:
                known[v] = OUTSIDE
    for i in range(len(known) - 1, -1, -1):
        v = at.order[i]
        if known[v] == OUTSIDE and above[v]:
            for e in range(at.before_start[v], at.before_start[v + 1]):
                u = at.before[e]
                if known[u] == FREE and above[u]:
                    known[u] = OUTSIDE


@njit(cache=True)
def stretches_from(
    at: Calls, order: Order, path: Ints, first: int, alone: bool, rest_s: Floats, below_s: float, net: Network
) -> Floats:
    """For every end the least duration of a call that holds exactly path[first : end + 1] of the path.

    [path length], inf before ``first``, where a stretch cannot be in one call, and where the path
    takes at least ``below_s`` with it (rest_s: [path length + 1] seconds that the operators up to
    there take at least). alone: one call per accelerator, which its groups cannot be divided over.
    """
    operators, length = len(order.group_of), len(path)
    least_s = np.full(length, np.inf)
    known = np.zeros(operators, np.int64)
    on_path = np.full(operators, -1, np.int64)
    for i in range(length):
        on_path[path[i]] = i
    stretch = Stretch(
        np.zeros(operators, np.bool_),
        np.zeros(operators, np.bool_),
        np.zeros(operators, np.bool_),
        np.zeros(len(order.group_bytes), np.bool_),
        np.zeros(operators + 1, np.int64),
    )
    nbytes, compute = 0.0, 0.0
    for end in range(first, length):
        if not stretch.inside[path[end]]:
            nbytes += _take_in(order, stretch, path[end], alone)
        compute += order.acc_s[path[end]]
        if nbytes > order.acc_bytes or rest_s[first] + compute + rest_s[length] - rest_s[end + 1] >= below_s:
            break
        seconds = _know(order, stretch, path, on_path, first, end, known)
        if seconds < np.inf:
            _rule_out(at, order, stretch, alone, known)
            least_s[end] = seconds + _cut(at, order, known, stretch, alone, net)
    return least_s


@njit(cache=True)
def shortest(path: Ints, stretch_s: Floats, cpu_s: Floats, most: int) -> float:
    """The least sum of at most ``most`` stretches, and operators on CPUs, that make up the path.

    stretch_s: [path length, path length], by first and last.
    """
    length = len(path)
    best = np.full((length + 1, most + 1), np.inf)
    best[0, :] = 0.0
    for first in range(length):
        for used in range(most + 1):
            value = best[first, used]
            best[first + 1, used] = min(best[first + 1, used], value + cpu_s[path[first]])
            if used < most:
                for end in range(first, length):
                    target = best[end + 1]
                    target[used + 1] = min(target[used + 1], value + stretch_s[first, end])
    return float(best[length].min())
