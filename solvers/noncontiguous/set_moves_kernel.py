"""A placement as one set of super-operators per device, and what moving one of them changes.

Everything is kept in arrays that are updated in time proportional to the messages of the moved
super-operator (Tarnawski et al., NeurIPS 2020, appendix on local search).
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit
from solvers.kernels.uncounted import inlined

Counts = NDArray[np.int32]
Random = NDArray[np.uint64]

ADDED, LANE, DUPLEX = 0, 1, 2
"""How compute, sending and receiving make a load: their sum, max(c, s + r) or max(c, s, r)."""
ANY, CONVEX, ACYCLIC = 0, 1, 2
"""Which sets a device may hold."""
MAKES, READS = 1, 2
"""What a super-operator does with a message; added up if it does both."""
NOWHERE = cast(int, np.int64(-1))
"""No device."""
SLACK = 1e-9
"""Relative excess over a memory cap that is rounding, as in `evaluate`."""


class Sets(NamedTuple):
    """What moving does not change. Nodes are super-operators, passes are 1 or (GPIPE) 2.

    Rows are ``x[x_start[i]:x_start[i + 1]]``; nodes are in topological order.
    """

    seconds: Floats  # [passes, devices, nodes], s per sample
    allowed: Bools  # [nodes, devices], where a node can run
    pays: Bools  # [devices], whether messages cost it
    held: Floats  # [nodes], bytes
    cap: Floats  # [devices], bytes
    model: int  # ADDED, LANE or DUPLEX
    split: bool  # every message has one maker: a device pays for it if it holds some but not all of its ends
    message_s: Floats  # [messages], s
    pass_of: Ints  # [messages]
    ends: Ints  # [2, messages], makers and readers; where it is split all ends count as makers
    on_start: Ints  # [messages + 1]
    on: Ints  # nodes on every message
    of_start: Ints  # [nodes + 1]
    of: Ints  # messages that every node is on
    role: Ints  # what the node does with each of these: MAKES, READS or both
    contiguity: int  # ANY, CONVEX or ACYCLIC, of the forward edges
    after_start: Ints  # [nodes + 1]
    after: Ints  # nodes that every node leads to
    before_start: Ints  # [nodes + 1]
    before: Ints  # nodes that lead to every node


class State(NamedTuple):
    """A placement and what follows from it."""

    where: Ints  # [nodes], the device of each
    parts: Floats  # [3, passes, devices], s of compute, sending and receiving
    load: Floats  # [passes, devices], s
    bytes_held: Floats  # [devices], bytes
    made: Counts  # [messages, devices], makers of the message there
    read: Counts  # [messages, devices], readers there
    members: Ints  # [devices, nodes], the nodes of each device in any order, the first ``sizes`` of the row
    sizes: Ints  # [devices]
    seat: Ints  # [nodes], their places in ``members``
    between: Ints  # [devices, devices], forward edges
    change: Floats  # [2, 3, passes], s that a tried move adds to ``parts`` at the device left and the device joined


def new_state(sets: Sets) -> State:
    """Room for a placement; `place` fills it in."""
    passes, devices, nodes = sets.seconds.shape
    messages = len(sets.message_s)
    return State(
        np.zeros(nodes, np.int64),
        np.zeros((3, passes, devices)),
        np.zeros((passes, devices)),
        np.zeros(devices),
        np.zeros((messages, devices), np.int32),
        np.zeros((messages, devices), np.int32),
        np.zeros((devices, nodes), np.int64),
        np.zeros(devices, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros((devices, devices), np.int64),
        np.zeros((2, 3, passes)),
    )


@inlined
def loaded(model: int, compute: float, sent: float, received: float) -> float:
    """Seconds a device is busy."""
    if model == LANE:
        return max(compute, sent + received)
    if model == DUPLEX:
        return max(compute, sent, received)
    return compute + sent + received


@njit(cache=True)
def place(sets: Sets, at: State, where: Ints) -> None:
    """Set the placement and count everything afresh."""
    passes, devices, nodes = sets.seconds.shape
    at.where[:] = where
    at.parts[:] = 0.0
    at.bytes_held[:] = 0.0
    at.made[:] = 0
    at.read[:] = 0
    at.sizes[:] = 0
    at.between[:] = 0
    for v in range(nodes):
        d = where[v]
        for p in range(passes):
            at.parts[0, p, d] += sets.seconds[p, d, v]
        at.bytes_held[d] += sets.held[v]
        at.members[d, at.sizes[d]] = v
        at.seat[v] = at.sizes[d]
        at.sizes[d] += 1
        for q in range(sets.of_start[v], sets.of_start[v + 1]):
            if sets.role[q] & MAKES:
                at.made[sets.of[q], d] += 1
            if sets.role[q] & READS:
                at.read[sets.of[q], d] += 1
        for q in range(sets.after_start[v], sets.after_start[v + 1]):
            at.between[d, where[sets.after[q]]] += 1
    for m in range(len(sets.message_s)):
        for d in range(devices):
            if sets.pays[d]:
                cost, made, read, p = sets.message_s[m], at.made[m, d], at.read[m, d], sets.pass_of[m]
                if sets.split:
                    at.parts[1, p, d] += _sends(cost, made, made, sets.ends[0, m])
                else:
                    at.parts[1, p, d] += _sends(cost, made, read, sets.ends[1, m])
                    at.parts[2, p, d] += _receives(cost, made, read, sets.ends[0, m])
    for p in range(passes):
        for d in range(devices):
            at.load[p, d] = loaded(sets.model, at.parts[0, p, d], at.parts[1, p, d], at.parts[2, p, d])


@inlined
def _sends(cost: float, made: int, read: int, readers: int) -> float:
    """What a device with so many makers and readers of a message pays to send it."""
    return cost if made > 0 and read < readers else 0.0


@inlined
def _receives(cost: float, made: int, read: int, makers: int) -> float:
    """What a device with so many makers and readers of a message pays to receive it."""
    return cost if read > 0 and made < makers else 0.0


@inlined
def try_move(sets: Sets, at: State, v: int, b: int) -> None:
    """Tell in ``change`` what moving node ``v`` to device ``b`` (not its own) would change."""
    change, made, read = at.change, at.made, at.read
    seconds, of, role, pays = sets.seconds, sets.of, sets.role, sets.pays
    message_s, pass_of, ends = sets.message_s, sets.pass_of, sets.ends
    a = at.where[v]
    for p in range(len(seconds)):
        change[0, 0, p] = -seconds[p, a, v]
        change[1, 0, p] = seconds[p, b, v]
        for part in range(1, 3):
            change[0, part, p] = 0.0
            change[1, part, p] = 0.0
    leaves, joins = pays[a], pays[b]
    for q in range(sets.of_start[v], sets.of_start[v + 1]):
        m = of[q]
        p, cost, makers = pass_of[m], message_s[m], ends[0, m]
        if sets.split:
            if leaves:
                here = made[m, a]
                if here == makers:
                    change[0, 1, p] += cost
                elif here == 1:
                    change[0, 1, p] -= cost
            if joins:
                here = made[m, b]
                if here == 0:
                    change[1, 1, p] += cost
                elif here == makers - 1:
                    change[1, 1, p] -= cost
            continue
        readers = ends[1, m]
        makes, reads = role[q] & MAKES, role[q] >> 1
        if leaves:
            some, others = made[m, a], read[m, a]
            change[0, 1, p] += _sends(cost, some - makes, others - reads, readers) - _sends(cost, some, others, readers)
            change[0, 2, p] += _receives(cost, some - makes, others - reads, makers) - _receives(
                cost, some, others, makers
            )
        if joins:
            some, others = made[m, b], read[m, b]
            change[1, 1, p] += _sends(cost, some + makes, others + reads, readers) - _sends(cost, some, others, readers)
            change[1, 2, p] += _receives(cost, some + makes, others + reads, makers) - _receives(
                cost, some, others, makers
            )


@inlined
def load_then(sets: Sets, at: State, p: int, d: int, side: int) -> float:
    """The load of device ``d`` after the tried move; side 0 for the device left, 1 for the one joined."""
    return loaded(
        sets.model,
        at.parts[0, p, d] + at.change[side, 0, p],
        at.parts[1, p, d] + at.change[side, 1, p],
        at.parts[2, p, d] + at.change[side, 2, p],
    )


@inlined
def make_move(sets: Sets, at: State, v: int, b: int) -> None:
    """Move node ``v`` to device ``b``; ``change`` must be that of `try_move`."""
    a = at.where[v]
    for side in range(2):
        d = b if side else a
        for p in range(len(sets.seconds)):
            for part in range(3):
                at.parts[part, p, d] += at.change[side, part, p]
            at.load[p, d] = loaded(sets.model, at.parts[0, p, d], at.parts[1, p, d], at.parts[2, p, d])
    seat_elsewhere(sets, at, v, b)


@inlined
def seat_elsewhere(sets: Sets, at: State, v: int, b: int) -> None:
    """Move node ``v`` to device ``b`` in all counts, but leave ``parts`` and ``load`` as they are."""
    a = at.where[v]
    at.bytes_held[a] -= sets.held[v]
    at.bytes_held[b] += sets.held[v]
    for q in range(sets.of_start[v], sets.of_start[v + 1]):
        m = sets.of[q]
        if sets.role[q] & MAKES:
            at.made[m, a] -= 1
            at.made[m, b] += 1
        if sets.role[q] & READS:
            at.read[m, a] -= 1
            at.read[m, b] += 1
    last = at.members[a, at.sizes[a] - 1]
    at.members[a, at.seat[v]] = last
    at.seat[last] = at.seat[v]
    at.sizes[a] -= 1
    at.members[b, at.sizes[b]] = v
    at.seat[v] = at.sizes[b]
    at.sizes[b] += 1
    if sets.contiguity != ANY:
        for q in range(sets.after_start[v], sets.after_start[v + 1]):
            to = at.where[sets.after[q]]
            at.between[a, to] -= 1
            at.between[b, to] += 1
        for q in range(sets.before_start[v], sets.before_start[v + 1]):
            source = at.where[sets.before[q]]
            at.between[source, a] -= 1
            at.between[source, b] += 1
    at.where[v] = b


@inlined
def move(sets: Sets, at: State, v: int, b: int) -> None:
    """Move node ``v`` to device ``b``, not its own."""
    try_move(sets, at, v, b)
    make_move(sets, at, v, b)


@inlined
def _excess_if(sets: Sets, at: State, a: int, b: int, nbytes: float) -> float:
    """`excess` with so many bytes on device ``b`` rather than ``a``."""
    total = 0.0
    for d in range(len(sets.cap)):
        held = at.bytes_held[d]
        if d == a:
            held -= nbytes
        elif d == b:
            held += nbytes
        if held > sets.cap[d] * (1 + SLACK):
            total += (held - sets.cap[d]) / max(sets.cap[d], 1.0)
    return total


@inlined
def excess(sets: Sets, at: State) -> float:
    """By how much sets are larger than their devices' memory, each as a share of it, added up."""
    return _excess_if(sets, at, NOWHERE, NOWHERE, 0.0)


@inlined
def excess_then(sets: Sets, at: State, v: int, b: int) -> float:
    """`excess` after moving node ``v`` to device ``b``."""
    return _excess_if(sets, at, at.where[v], b, sets.held[v])


@inlined
def is_contiguous(sets: Sets, at: State, scratch: Bools) -> bool:
    """Whether the sets are as contiguous as asked. scratch: [nodes]."""
    if sets.contiguity == ACYCLIC:
        return _is_acyclic(at.between)
    if sets.contiguity == CONVEX:
        if _is_acyclic(at.between):
            return True  # then no path can leave a set and come back
        for d in range(len(sets.cap)):
            if not _is_convex(sets, at, d, scratch):
                return False
    return True


@inlined
def _is_acyclic(between: Ints) -> bool:
    """Whether the devices can be ordered along the edges: take away those nothing leads to."""
    devices = len(between)
    gone = 0  # bit set
    left = devices
    while left:
        removed = False
        for d in range(devices):
            if (gone >> d) & 1:
                continue
            free = True
            for e in range(devices):
                if e != d and not (gone >> e) & 1 and between[e, d] > 0:
                    free = False
                    break
            if free:
                gone |= 1 << d
                left -= 1
                removed = True
        if not removed:
            return False
    return True


@njit(cache=True)
def _is_convex(sets: Sets, at: State, d: int, left: Bools) -> bool:
    """Whether no path leaves device ``d`` and comes back; left: which nodes come after having left it."""
    for v in range(len(at.where)):
        left[v] = False
        for q in range(sets.before_start[v], sets.before_start[v + 1]):
            u = sets.before[q]
            if left[u] or (at.where[u] == d and at.where[v] != d):
                left[v] = True
                break
        if left[v] and at.where[v] == d:
            return False
    return True


@inlined
def max_load(at: State) -> float:
    """The objective: the largest load, of each pass if there are two, added up."""
    total = 0.0
    for p in range(len(at.load)):
        largest = 0.0
        for d in range(at.load.shape[1]):
            largest = max(largest, at.load[p, d])
        total += largest
    return total


@inlined
def smooth_load_then(sets: Sets, at: State, a: int, b: int, weight: float) -> float:
    """`max_load` plus ``weight`` times the 4-norm of the loads, which distinguishes more placements; after the tried
    move from device ``a`` to ``b``, or as it is where both are NOWHERE."""
    total = 0.0
    for p in range(len(at.load)):
        largest, powers = 0.0, 0.0
        for d in range(at.load.shape[1]):
            load = at.load[p, d]
            if d == a:
                load = load_then(sets, at, p, d, 0)
            elif d == b:
                load = load_then(sets, at, p, d, 1)
            square = load * load
            powers += square * square
            largest = max(largest, load)
        total += largest + weight * np.sqrt(np.sqrt(powers))
    return total


@inlined
def draw(rng: Random) -> float:
    """A number in [0, 1) (xorshift64*); rng: [1], not 0."""
    x = rng[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    rng[0] = x
    return np.float64((x * np.uint64(2685821657736338717)) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inlined
def below(rng: Random, count: int) -> int:
    """A number in 0 .. count - 1."""
    return int(draw(rng) * count)
