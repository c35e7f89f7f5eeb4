"""Piper's dynamic program for one target: can every stage take at most so long per sample?

Tarnawski, Narayanan, Phanishayee, NeurIPS 2021, section 5. There the table is indexed by downset,
devices and sum of the data-parallel degrees, and holds the least bottleneck. A stage's time never falls
with the sum (more micro-batches are in flight), so for a fixed bottleneck it is enough to know the
least sum for each downset and number of devices: a table smaller by a dimension, searched a few times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.contiguous.lattice_kernel import Lattice
from solvers.contiguous.messages_kernel import Ends, Messages, join, leave, look_behind, settles
from solvers.contiguous.walk_kernel import LIVE, RELAXATIONS, SOURCE, Stack, climber
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.uncounted import inlined, uncounted
from solvers.pipelines.piper.memory_kernel import (
    ABOVE_S,
    HELD,
    HELD_AGAIN,
    LEAST,
    MEMORY,
    SAVED,
    SAVED_AGAIN,
    WORKSPACE,
    StageMemory,
    StageSums,
    most_flights,
)

Ids = NDArray[np.int32]

COMPUTE, SETTLED, MOVED, AGAIN = 0, 1, 2, 3
LOADS = 4
"""Columns of a stage's seconds: compute, transfers that can no longer be saved, all transfers as the
set is now, and what recomputing everything would add."""


class StageCosts(NamedTuple):
    """Seconds per sample of nodes and messages in a stage, by option: how many devices, and how they divide work.

    devices, degrees: [options] devices it takes, and what it adds to the sum that counts micro-batches
    in flight; by devices, ascending. flights: [options] most micro-batches a stage ever keeps. compute_s,
    again_s: [options, nodes] (inf: cannot), and more if recomputed. fixed_s: [options] once for a stage
    with parameters; has_params: [nodes]. send_s, receive_s: [options, messages]. beside: whether transfers run
    beside compute, so that the longer of the two counts and not their sum.
    """

    devices: Ints
    degrees: Ints
    flights: Ints
    compute_s: Floats
    again_s: Floats
    fixed_s: Floats
    has_params: Bools
    send_s: Floats
    receive_s: Floats
    messages: Messages
    beside: bool


class Stages(NamedTuple):
    """The objective of `walk_stages`: the stage I minus J comes before those of J. A state is a number of devices.

    target_s: what a stage may take. most_sum: what degrees may add up to. least: [downsets, devices + 1] least sum of
    degrees of chains of the downset on so many devices (more than ``most_sum``: none). came_from: [downsets, devices +
    1] options * downset before + option of the first stage. left_s: [downsets] device-seconds of what is outside, at
    least. short: [2] see `memory_kernel.ABOVE_S`. usable: [1] how many options the devices left after J are enough for.
    inside: [nodes] whether in the stage. The rest is of the stage at every depth of the walk. first: [depth] how many
    of the first options can no longer take it. seconds: [depth, options, LOADS]. nbytes: [depth, groups, SUMS].
    received_bytes: [depth, groups]. params: [depth] nodes with parameters.
    """

    costs: StageCosts
    memory: StageMemory
    target_s: float
    most_sum: int
    least: Ids
    came_from: Ints
    left_s: Floats
    short: Floats
    usable: Ints
    ends: Ends
    inside: Bools
    first: Ints
    seconds: Floats
    nbytes: Floats
    received_bytes: Floats
    params: Ints


@inlined
def _load_s(compute_s: float, moved_s: float, beside: bool) -> float:
    return max(compute_s, moved_s) if beside else compute_s + moved_s


@inlined
def _open(source: int, lattice: Lattice, stack: Stack, at: Stages) -> int:
    count = _live(source, stack, at)
    if count == 0:
        return 0
    at.usable[0] = len(at.costs.devices)
    while at.usable[0] > 0 and stack.live[0] + at.costs.devices[at.usable[0] - 1] > at.least.shape[1] - 1:
        at.usable[0] -= 1
    look_behind(source, lattice, at.costs.messages, at.ends)
    at.seconds[0] = at.nbytes[0] = at.received_bytes[0] = 0.0
    at.params[0] = at.first[0] = 0
    return count


@inlined
def _live(source: int, stack: Stack, at: Stages) -> int:
    """Gather the numbers of devices on which ``source`` is worth going on from, and count them: fewer do not do with as
    small a sum, and what is left can be done on the rest within the target."""
    count = 0
    best = at.most_sum + 1
    most = at.least.shape[1] - 1
    for k in range(most):
        if at.least[source, k] >= best:
            continue
        best = at.least[source, k]
        if at.left_s[source] > (most - k) * at.target_s:
            at.short[ABOVE_S] = min(at.short[ABOVE_S], at.left_s[source] / (most - k))
            break  # with more devices used even less is left
        stack.live[count] = k
        count += 1
    return count


@inlined
def _add(depth: int, stack: Stack, at: Stages) -> bool:
    v = stack.element[depth]
    _extend(depth, v, at)
    if not _fits(depth, at):
        return False
    at.inside[v] = True
    at.params[depth] = at.params[depth - 1] + int(at.costs.has_params[v])
    _join(depth, v, at)
    _relax(depth, stack, at)
    return True


@inlined
def _groups(depth: int, at: Stages) -> tuple[int, int]:
    """The range of groups whose bytes are worth adding up: all by layer, else a group is an option."""
    return (0, at.nbytes.shape[1]) if at.memory.by_layer else (at.first[depth], at.usable[0])


@inlined
def _extend(depth: int, v: int, at: Stages) -> None:
    """Make the stage at ``depth`` from the one below and a node, but for the transfers that may be saved."""
    costs, memory, below = at.costs, at.memory, depth - 1
    begin, end = _groups(below, at)
    for g in range(begin, end):
        saved, held = memory.kept_bytes[g, v], memory.held_bytes[g, v]
        saved_again, held_again = memory.kept_again_bytes[g, v], memory.held_again_bytes[g, v]
        at.nbytes[depth, g, SAVED] = at.nbytes[below, g, SAVED] + saved
        at.nbytes[depth, g, HELD] = at.nbytes[below, g, HELD] + held
        at.nbytes[depth, g, SAVED_AGAIN] = at.nbytes[below, g, SAVED_AGAIN] + saved_again
        at.nbytes[depth, g, HELD_AGAIN] = at.nbytes[below, g, HELD_AGAIN] + held_again
        at.nbytes[depth, g, WORKSPACE] = max(at.nbytes[below, g, WORKSPACE], memory.workspace_bytes[g, v])
        at.nbytes[depth, g, LEAST] = at.nbytes[below, g, LEAST] + min(saved + held, saved_again + held_again)
    first, usable = at.first[below], at.usable[0]
    for o in range(first, usable):
        at.seconds[depth, o, COMPUTE] = at.seconds[below, o, COMPUTE] + costs.compute_s[o, v]
        at.seconds[depth, o, SETTLED] = at.seconds[below, o, SETTLED]
        at.seconds[depth, o, MOVED] = at.seconds[below, o, MOVED]
        at.seconds[depth, o, AGAIN] = at.seconds[below, o, AGAIN] + costs.again_s[o, v]
    messages = costs.messages
    for t in range(messages.node_start[v], messages.node_start[v + 1]):
        m = messages.node_message[t]
        sends, receives = settles(at.ends, m, messages.node_role[t])
        if sends:
            for o in range(first, usable):
                at.seconds[depth, o, SETTLED] += costs.send_s[o, m]
        if receives:
            for o in range(first, usable):
                at.seconds[depth, o, SETTLED] += costs.receive_s[o, m]


@inlined
def _fits(depth: int, at: Stages) -> bool:
    """Set ``first``, and whether an option is left that may take a stage that holds the one at ``depth``.

    Compute, least memory and the transfers with J only grow along the walk, so a branch ends when no option stays
    within the target and the cap.
    """
    first = at.first[depth - 1]
    while first < at.usable[0]:
        g = at.memory.group[first]
        if at.nbytes[depth, g, LEAST] + at.nbytes[depth, g, WORKSPACE] > at.memory.cap_bytes:
            at.short[MEMORY] = 1.0
        else:
            seconds = _load_s(at.seconds[depth, first, COMPUTE], at.seconds[depth, first, SETTLED], at.costs.beside)
            if seconds <= at.target_s:
                break
            at.short[ABOVE_S] = min(at.short[ABOVE_S], seconds)
        first += 1
    at.first[depth] = first
    return bool(first < at.usable[0])


@inlined
def _join(depth: int, v: int, at: Stages) -> None:
    """Count the messages that the stage at ``depth`` sends and receives as it is, with a node."""
    costs, messages = at.costs, at.costs.messages
    begin, end = _groups(depth, at)
    for g in range(begin, end):
        at.received_bytes[depth, g] = at.received_bytes[depth - 1, g]
    for t in range(messages.node_start[v], messages.node_start[v + 1]):
        m = messages.node_message[t]
        more_sent, more_received = join(messages, at.ends, m, messages.node_role[t])
        if more_sent != 0 or more_received != 0:
            for o in range(at.first[depth], at.usable[0]):
                at.seconds[depth, o, MOVED] += more_sent * costs.send_s[o, m] + more_received * costs.receive_s[o, m]
            for g in range(begin, end):
                at.received_bytes[depth, g] += more_received * at.memory.received_bytes[g, m]


@inlined
def _relax(depth: int, stack: Stack, at: Stages) -> None:
    """Go from every live state of J to the downset reached, with the stage at ``depth`` under every option left."""
    costs, most_devices = at.costs, at.least.shape[1] - 1
    source, target, fewest = stack.cursor[SOURCE], stack.downset[depth], stack.live[0]
    options, largest_sum = len(costs.devices), at.least[source, fewest]
    relaxations = 0
    least_free = at.most_sum + 1  # degree of an option that memory leaves alone: it makes larger ones useless
    for o in range(at.first[depth], at.usable[0]):
        degree = costs.degrees[o]
        if degree >= least_free:
            continue
        compute_s = at.seconds[depth, o, COMPUTE] + (costs.fixed_s[o] if at.params[depth] > 0 else 0.0)
        load_s = _load_s(compute_s, at.seconds[depth, o, MOVED], costs.beside)
        if load_s > at.target_s:
            at.short[ABOVE_S] = min(at.short[ABOVE_S], load_s)
            continue
        left = most_devices - fewest - costs.devices[o]
        if at.left_s[target] > left * at.target_s:
            if left > 0:
                at.short[ABOVE_S] = min(at.short[ABOVE_S], at.left_s[target] / left)
            continue
        wanted = min((largest_sum + 2 * degree - 1) // degree, costs.flights[o])
        g = at.memory.group[o]
        stage = StageSums(
            group=g,
            nbytes=at.nbytes[depth, g],
            received_bytes=max(at.received_bytes[depth, g], 0.0),
            inside=at.inside,
            again_s=costs.again_s[o],
            load_s=load_s,
            recomputed_s=_load_s(compute_s + at.seconds[depth, o, AGAIN], at.seconds[depth, o, MOVED], costs.beside),
        )
        flying = most_flights(at.memory, stage, at.target_s, wanted, at.short)
        if flying == wanted:
            least_free = degree
        for i in range(stack.cursor[LIVE]):
            now = stack.live[i]
            k = now + costs.devices[o]
            if k > most_devices:
                break
            s = at.least[source, now] + degree
            relaxations += 1
            if s < at.least[target, k] and min((s + degree - 1) // degree, costs.flights[o]) <= flying:
                at.least[target, k] = s
                at.came_from[target, k] = options * source + o
    stack.cursor[RELAXATIONS] += relaxations


@inlined
def _remove(v: int, at: Stages) -> None:
    at.inside[v] = False
    leave(at.costs.messages, at.ends, v)


_climb = climber(_open, _add, _remove)


@uncounted
def walk_stages(lattice: Lattice, stack: Stack, at: Stages, quota: int) -> int:
    """One target of Piper's program: see `solvers.contiguous.walk_kernel`; DONE or PAUSED."""
    return _climb(lattice, stack, at, quota)
