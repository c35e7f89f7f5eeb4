"""The largest load: what it brings to the walk over downsets, and its best cut of one order.

A load is compute and the messages that a part sends and receives (Tarnawski et al., NeurIPS 2020, section 3; its
appendix has every load model, both training objectives, replicated parts, and classes of devices). The plain load
(`Costs.general`) is compiled apart, without loops, which takes a third of the time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.contiguous.lattice_kernel import Lattice, holds
from solvers.contiguous.messages_kernel import Ends, Messages, join, join_undirected, leave, look_behind, settles
from solvers.contiguous.walk_kernel import LIVE, SHORT, SOURCE, Stack, climber
from solvers.kernels.arrays import Bools, Floats, Ints, Words
from solvers.kernels.lazy import njit
from solvers.kernels.uncounted import inlined, uncounted

Ids = NDArray[np.int32]

BLOCKING, LANE, DUPLEX = 0, 1, 2
COMPUTE, SENT, SETTLED_SENT, RECEIVED, SETTLED_RECEIVED = 0, 1, 2, 3, 4
"""Columns of a part's seconds: compute, transfers, and those of them that no larger part saves."""
COLUMNS, PLAIN_COLUMNS = 5, 3
"""The plain load counts no directions: all is sent."""


class Costs(NamedTuple):
    """Costs of super-operators and directed messages, in seconds per sample and bytes.

    passes: 1 (everything together) or 2 (forward, backward). rows: for one of row_replicas accelerators of a kind.
    acc_s: [rows, passes, nodes], inf where it cannot run. cpu_s: [passes, nodes]. row_replicas: [rows].
    static_bytes, param_bytes: [nodes]. saved_bytes, workspace_bytes: [rows, nodes]. sync_s, sync_s_per_byte: [rows] the
    gradients' synchronisation, if there are any, sent in the last pass; inf where so many replicas cannot share a
    micro-batch. message_pass: [messages]. message_s: [rows, messages].
    general: True; None for the plain load, with one row, one pass, one class of accelerators, and messages that a part
    pays for once if it splits their ends, all of which count as makers.
    """

    acc_s: Floats
    cpu_s: Floats
    row_replicas: Ints
    static_bytes: Floats
    param_bytes: Floats
    saved_bytes: Floats
    workspace_bytes: Floats
    sync_s: Floats
    sync_s_per_byte: Floats
    messages: Messages
    message_pass: Ints
    message_s: Floats
    general: bool | None


@inlined
def _sizes(costs: Costs) -> tuple[int, int, int]:
    """Rows, passes, and columns in use of a part's seconds; constants for the plain load."""
    if costs.general is None:
        return 1, 1, PLAIN_COLUMNS
    return costs.acc_s.shape[0], costs.acc_s.shape[1], COLUMNS


class Limits(NamedTuple):
    """Devices, ways to give a part some of them, and caps.

    classes: of devices that are alike, the first one the CPUs. A state is how many of each class are in use, used:
    [states, classes]; stride: [classes], by how much one more device of a class changes its number; available:
    [classes]. flights: [states], micro-batches kept by the part that is made next. ways: what a part may have, the
    first one a CPU. need: [ways, classes]; enough: [states, ways], whether a state leaves so many; step: [ways], from
    the state before to the one after; way_row: [ways], row of the costs (of a CPU 0); way_bytes: [ways], the least
    memory of its devices. transfers: BLOCKING, LANE or DUPLEX. worth: [classes, passes] seconds that a device of the
    class can take over, at most, in a second, of work as `least_work_s` has it.
    """

    used: Ints
    stride: Ints
    available: Ints
    flights: Floats
    need: Ints
    enough: Bools
    step: Ints
    way_row: Ints
    way_bytes: Floats
    transfers: int
    worth: Floats


class Load(NamedTuple):
    """The objective of `walk_load`, and of `cut_order` with an order's positions for downsets.

    With two passes: the least largest load in the backward pass of chains whose forward loads are all below bounds[0].
    best: [downsets, states, passes] largest loads of the best chain, s, compared by the last pass, then the first.
    came_from: [downsets, states] ways * downset before + the way of the last part. floor_s: see `floors`. bounds:
    [passes] only loads below them are of interest; the last one falls. most: [ways, passes] work that may be left over
    after one more part, -1 if no device is left for it. in_flight: [1] the fewest micro-batches that it keeps.
    fewer, usable: [states], [ways] scratch.
    The rest is of the part at every depth of the walk. seconds: [depth, rows, passes, COLUMNS] on accelerators; cpu_s:
    [depth, passes]. static_bytes, param_bytes: [depth]. saved_bytes, workspace_bytes: [depth, rows].
    """

    costs: Costs
    limits: Limits
    best: Floats
    came_from: Ids
    floor_s: Floats
    bounds: Floats
    most: Floats
    in_flight: Floats
    fewer: Floats
    usable: Bools
    ends: Ends
    seconds: Floats
    cpu_s: Floats
    static_bytes: Floats
    param_bytes: Floats
    saved_bytes: Floats
    workspace_bytes: Floats


@inlined
def _passes(at: Load) -> int:
    return 1 if at.costs.general is None else len(at.bounds)


@inlined
def _classes(at: Load) -> int:
    return 2 if at.costs.general is None else len(at.limits.available)


@inlined
def _ways(at: Load) -> int:
    return 2 if at.costs.general is None else len(at.limits.need)


@inlined
def _row(w: int, at: Load) -> int:
    return 0 if at.costs.general is None else int(at.limits.way_row[w])


@inlined
def busy_s(compute_s: float, sent_s: float, received_s: float, transfers: int) -> float:
    """A device's load (Tarnawski et al. 2020, section 3, and its variants)."""
    if transfers == LANE:
        return max(compute_s, sent_s + received_s)
    if transfers == DUPLEX:
        return max(compute_s, sent_s, received_s)
    return compute_s + sent_s + received_s


@inlined
def _clear(at: Load) -> None:
    """Make the part at depth 0 empty."""
    at.seconds[0] = at.cpu_s[0] = at.saved_bytes[0] = at.workspace_bytes[0] = 0.0
    at.static_bytes[0] = at.param_bytes[0] = 0.0


@inlined
def _extend(below: int, depth: int, v: int, at: Load) -> None:
    """Make the part at ``depth`` from the one below it and a node, but for the messages that may still be saved."""
    costs = at.costs
    rows, passes, columns = _sizes(costs)
    at.static_bytes[depth] = at.static_bytes[below] + costs.static_bytes[v]
    if costs.general is not None:
        at.param_bytes[depth] = at.param_bytes[below] + costs.param_bytes[v]
    for p in range(passes):
        at.cpu_s[depth, p] = at.cpu_s[below, p] + costs.cpu_s[p, v]
    for r in range(rows):
        at.saved_bytes[depth, r] = at.saved_bytes[below, r] + costs.saved_bytes[r, v]
        at.workspace_bytes[depth, r] = max(at.workspace_bytes[below, r], costs.workspace_bytes[r, v])
        for p in range(passes):
            # inf once a node of the part cannot run there
            at.seconds[depth, r, p, COMPUTE] = at.seconds[below, r, p, COMPUTE] + costs.acc_s[r, p, v]
            for column in range(SENT, columns):
                at.seconds[depth, r, p, column] = at.seconds[below, r, p, column]


@inlined
def _settle(depth: int, v: int, at: Load) -> None:
    """Count the messages that the part at ``depth`` sends and receives for good because of a node."""
    messages = at.costs.messages
    for t in range(messages.node_start[v], messages.node_start[v + 1]):
        m = messages.node_message[t]
        if at.costs.general is None:
            if at.ends.behind[m] and at.ends.made[m] == 0:
                at.seconds[depth, 0, 0, SETTLED_SENT] += at.costs.message_s[0, m]
            continue
        sends, receives = settles(at.ends, m, messages.node_role[t])
        p = at.costs.message_pass[m]
        if sends:
            for r in range(len(at.costs.message_s)):
                at.seconds[depth, r, p, SETTLED_SENT] += at.costs.message_s[r, m]
        if receives:
            for r in range(len(at.costs.message_s)):
                at.seconds[depth, r, p, SETTLED_RECEIVED] += at.costs.message_s[r, m]


@inlined
def _join(depth: int, v: int, at: Load) -> None:
    """Count the messages that the part at ``depth`` sends and receives as it is, with a node."""
    messages = at.costs.messages
    for t in range(messages.node_start[v], messages.node_start[v + 1]):
        m = messages.node_message[t]
        if at.costs.general is None:
            at.seconds[depth, 0, 0, SENT] += join_undirected(messages, at.ends, m) * at.costs.message_s[0, m]
            continue
        more_sent, more_received = join(messages, at.ends, m, messages.node_role[t])
        if more_sent != 0 or more_received != 0:
            p = at.costs.message_pass[m]
            for r in range(len(at.costs.message_s)):
                at.seconds[depth, r, p, SENT] += more_sent * at.costs.message_s[r, m]
                at.seconds[depth, r, p, RECEIVED] += more_received * at.costs.message_s[r, m]


@inlined
def _synchronised_s(depth: int, r: int, at: Load) -> float:
    """Seconds that the replicas of the part at ``depth`` take to add up its gradients."""
    if at.costs.general is None:
        return 0.0
    fixed_s, params = at.costs.sync_s[r], at.param_bytes[depth]
    # Where so many replicas are impossible they are so without parameters too.
    return fixed_s + at.costs.sync_s_per_byte[r] * params if params > 0 or np.isinf(fixed_s) else 0.0


@inlined
def _load_s(depth: int, w: int, p: int, synchronised_s: float, at: Load) -> float:
    """The load of the part at ``depth`` in a pass, where it is given devices in way ``w`` (0: a CPU)."""
    if w == 0:
        return float(at.cpu_s[depth, p])
    r = _row(w, at)
    sent_s = at.seconds[depth, r, p, SENT] + (synchronised_s if p == _passes(at) - 1 else 0.0)
    return busy_s(at.seconds[depth, r, p, COMPUTE], sent_s, at.seconds[depth, r, p, RECEIVED], at.limits.transfers)


@inlined
def _nbytes(depth: int, r: int, flights: float, at: Load) -> float:
    return float(at.static_bytes[depth] + flights * at.saved_bytes[depth, r] + at.workspace_bytes[depth, r])


@inlined
def _open(source: int, lattice: Lattice, stack: Stack, at: Load) -> int:
    count = _live(source, stack, at)
    if count == 0:
        return 0
    at.most[:] = -1.0
    at.in_flight[0] = np.inf
    for i in range(count):
        s = stack.live[i]
        at.in_flight[0] = min(at.in_flight[0], at.limits.flights[s])
        for p in range(_passes(at)):
            for w in range(_ways(at)):
                at.most[w, p] = max(at.most[w, p], _capacity(s, w, p, at))
    look_behind(source, lattice, at.costs.messages, at.ends)
    _clear(at)
    return count


@inlined
def _live(source: int, stack: Stack, at: Load) -> int:
    """Gather the states of ``source`` worth going on from, and count them: not if fewer devices do as well, or if what
    remains is more than the devices left can do below the bounds."""
    limits, last = at.limits, _passes(at) - 1
    count = 0
    for s in range(len(limits.used)):
        value = at.best[source, s, last]
        fewer = np.inf
        for c in range(_classes(at)):
            if limits.used[s, c] > 0:
                fewer = min(fewer, at.fewer[s - limits.stride[c]])
        at.fewer[s] = min(value, fewer)  # the best with no more devices of any class
        useful = value < at.bounds[last] and value < fewer
        for p in range(last + 1):
            useful = useful and at.floor_s[p, source] <= _capacity(s, -1, p, at)
        if useful:
            stack.live[count] = s
            count += 1
    return count


@inlined
def _capacity(state: int, way: int, p: int, at: Load) -> float:
    """Work of a pass that can still be done below its bound after a state, and a part made in a way (-1: none); -1
    where there are not devices enough for it."""
    limits, left = at.limits, 0.0
    for c in range(_classes(at)):
        devices = limits.available[c] - limits.used[state, c] - (limits.need[way, c] if way >= 0 else 0)
        if devices < 0:
            return -1.0
        left += devices * at.bounds[p] * limits.worth[c, p]
    return left * (1 + 1e-9)


@inlined
def _add(depth: int, stack: Stack, at: Load) -> bool:
    v = stack.element[depth]
    _extend(depth - 1, depth, v, at)
    _settle(depth, v, at)
    if not _fits(depth, stack, at):
        return False
    _join(depth, v, at)
    for w in range(_ways(at)):
        if at.usable[w]:
            _relax(depth, stack, w, at)
    return True


@inlined
def _fits(depth: int, stack: Stack, at: Load) -> bool:
    """Set ``usable``: in which ways a part may have devices that holds the one at ``depth``; whether in any.

    Compute, CPU time, memory, gradients to synchronise and transfers with J only grow along a walk, in every pass and
    direction, so reaching a bound in them ends a branch.
    """
    limits, last = at.limits, _passes(at) - 1
    usable = False
    within = at.most[0, last] >= 0
    for p in range(last + 1):
        within = within and at.cpu_s[depth, p] < at.bounds[p]
    if within and _nbytes(depth, 0, at.in_flight[0], at) > limits.way_bytes[0]:
        within = False
        stack.cursor[SHORT] = 1
    at.usable[0] = usable = within
    for r in range(_sizes(at.costs)[0]):
        synchronised_s = _synchronised_s(depth, r, at)
        within = True
        for p in range(last + 1):
            sent_s = at.seconds[depth, r, p, SETTLED_SENT] + (synchronised_s if p == last else 0.0)
            received_s = at.seconds[depth, r, p, SETTLED_RECEIVED]
            within = (
                within and busy_s(at.seconds[depth, r, p, COMPUTE], sent_s, received_s, limits.transfers) < at.bounds[p]
            )
        nbytes = _nbytes(depth, r, at.in_flight[0], at)
        for w in range(1, _ways(at)):
            if _row(w, at) != r:
                continue
            possible = within and at.most[w, last] >= 0
            if possible and nbytes > limits.way_bytes[w]:
                possible = False
                stack.cursor[SHORT] = 1
            at.usable[w] = possible
            usable = usable or possible
    return bool(usable)


@inlined
def _relax(depth: int, stack: Stack, w: int, at: Load) -> None:
    """Go from every live state of J to the downset reached, with the part at ``depth`` on devices in way ``w``."""
    limits, last = at.limits, _passes(at) - 1
    source, target, r = stack.cursor[SOURCE], stack.downset[depth], _row(w, at)
    synchronised_s = _synchronised_s(depth, r, at)
    for p in range(last + 1):
        if _load_s(depth, w, p, synchronised_s, at) >= at.bounds[p] or at.floor_s[p, target] > at.most[w, p]:
            return
    first_s, last_s = _load_s(depth, w, 0, synchronised_s, at), _load_s(depth, w, last, synchronised_s, at)
    for i in range(stack.cursor[LIVE]):
        s = stack.live[i]
        if not limits.enough[s, w]:
            continue
        to = s + limits.step[w]
        value, ahead = max(at.best[source, s, last], last_s), max(at.best[source, s, 0], first_s)
        known = at.best[target, to, last]
        if value > known or (value == known and ahead >= at.best[target, to, 0]):
            continue
        if _nbytes(depth, r, limits.flights[s], at) > limits.way_bytes[w]:
            stack.cursor[SHORT] = 1
            continue
        at.best[target, to, 0] = ahead
        at.best[target, to, last] = value
        at.came_from[target, to] = _ways(at) * source + w
        if target == len(at.best) - 1:
            at.bounds[last] = min(at.bounds[last], value)


@inlined
def _remove(v: int, at: Load) -> None:
    leave(at.costs.messages, at.ends, v)


_climb = climber(_open, _add, _remove)


@uncounted
def walk_load(lattice: Lattice, stack: Stack, at: Load, quota: int) -> int:
    """The exact program for chains whose parts may be replicated: see `walk_kernel`; DONE or PAUSED."""
    return _climb(lattice, stack, at, quota)


@uncounted
def cut_order(order: Ints, at: Load, begin: int, end: int) -> None:
    """The best cut of ``order`` (from the end of the pipeline to its start) with loads below ``bounds``, which stay.

    Fills the table with the parts that start at the positions from ``begin`` to ``end``; a row is a position, "the
    first i super-operators of the order". Parts grow in place, at depth 0.
    """
    limits, last = at.limits, _passes(at) - 1
    states, ways = len(limits.used), _ways(at)
    for first in range(begin, end):
        reached = False
        for s in range(states):
            reached = reached or at.best[first, s, last] < at.bounds[last]
        if not reached:
            continue
        at.ends.made[:] = 0
        at.ends.read[:] = 0
        _clear(at)
        for position in range(first, len(order)):
            _extend(0, 0, order[position], at)
            _join(0, order[position], at)
            if not _usable_now(at):
                break
            for s in range(states):
                if at.best[first, s, last] < at.bounds[last]:
                    for w in range(ways):
                        if at.usable[w] and limits.enough[s, w]:
                            _take(first, position + 1, s, w, at)


@inlined
def _usable_now(at: Load) -> bool:
    """Set ``usable``: in which ways the part at depth 0 stays below the bounds; whether a larger one may."""
    passes = _passes(at)
    at.usable[0] = at.limits.available[0] > 0
    for p in range(passes):
        at.usable[0] = at.usable[0] and at.cpu_s[0, p] < at.bounds[p]
    hope = at.usable[0]
    for w in range(1, _ways(at)):
        r = _row(w, at)
        synchronised_s = _synchronised_s(0, r, at)
        at.usable[w] = within = True
        for p in range(passes):
            at.usable[w] = at.usable[w] and _load_s(0, w, p, synchronised_s, at) < at.bounds[p]
            within = within and at.seconds[0, r, p, COMPUTE] < at.bounds[p]
        hope = hope or within
    return bool(hope)


@inlined
def _take(first: int, reached: int, s: int, w: int, at: Load) -> None:
    """Go from a state of position ``first`` to position ``reached`` with the part at depth 0 in way ``w``."""
    limits, last = at.limits, _passes(at) - 1
    r = _row(w, at)
    if _nbytes(0, r, limits.flights[s], at) > limits.way_bytes[w]:
        return
    synchronised_s = _synchronised_s(0, r, at)
    to = s + limits.step[w]
    value = max(at.best[first, s, last], _load_s(0, w, last, synchronised_s, at))
    ahead = max(at.best[first, s, 0], _load_s(0, w, 0, synchronised_s, at))
    known = at.best[reached, to, last]
    if value < known or (value == known and ahead < at.best[reached, to, 0]):
        at.best[reached, to, 0] = ahead
        at.best[reached, to, last] = value
        at.came_from[reached, to] = _ways(at) * first + w


@njit(cache=True)
def floors(words: Words, parent: Ids, via: Ids, costs: Costs, cut: bool, left: Floats, first: int, end: int) -> None:
    """Fill in the least accelerator seconds that what is outside of a downset takes, from ``first`` to ``end``.

    left: [passes, downsets], filled in up to ``first``. Replicas take r times their own; transfers are
    no shorter for them. cut: also count the messages between inside and outside, which some device
    outside pays for (where loads are sums and there are no CPUs).
    """
    rows, passes, nodes = costs.acc_s.shape
    undirected = costs.general is None
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
            for t in range(costs.messages.node_start[v], costs.messages.node_start[v + 1]):
                m = costs.messages.node_message[t]
                more = _crosses(words, i, costs.messages, m, undirected)
                more -= _crosses(words, parent[i], costs.messages, m, undirected)
                left[costs.message_pass[m], i] += more * costs.message_s[0, m]


@njit(cache=True)
def _crosses(words: Words, downset: int, messages: Messages, message: int, undirected: bool) -> int:
    """How often a message is sent by makers, or received by readers, outside of a downset because of
    readers or makers inside."""
    makers, readers = 0, 0
    first, end = messages.maker_start[message], messages.maker_start[message + 1]
    for i in range(first, end):
        makers += holds(words, downset, messages.makers[i])
    all_makers = end - first
    if undirected:
        return int(0 < makers < all_makers)
    first, end = messages.reader_start[message], messages.reader_start[message + 1]
    for i in range(first, end):
        readers += holds(words, downset, messages.readers[i])
    return int(makers < all_makers and readers > 0) + int(readers < end - first and makers > 0)
