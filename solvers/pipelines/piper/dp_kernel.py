"""Piper's dynamic programme for one target: can every stage take at most so long per sample?

Tarnawski, Narayanan, Phanishayee, NeurIPS 2021, section 5. There the table is indexed by downset,
devices and sum of the data-parallel degrees, and holds the least bottleneck. A stage's time never falls
with the sum (more micro-batches are in flight), so for a fixed bottleneck it is enough to know the
least sum for each downset and number of devices: a table smaller by a dimension, searched a few times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.contiguous.lattice_kernel import DONE, PAUSED, Lattice, holds
from solvers.contiguous.messages_kernel import MAKES, READS
from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.pipelines.piper.memory_kernel import (
    HELD,
    HELD_AGAIN,
    KEPT,
    KEPT_AGAIN,
    LEAST,
    WORKSPACE,
    StageMemory,
    most_flights,
)

Ids = NDArray[np.int32]

COMPUTE, SETTLED, MOVED, AGAIN = 0, 1, 2, 3
LOADS = 4
"""Columns of a stage's seconds: compute, transfers that can no longer be saved, all transfers as the
set is now, and what recomputing everything would add."""
SOURCE, DEPTH, PAIRS, STATES, RELAXATIONS = 0, 1, 2, 3, 4
"""Places of the cursor."""


class StageCosts(NamedTuple):
    """Seconds per sample of nodes and messages in a stage, by option: how many devices, shared out how.

    devices, degrees: [options] devices it takes, and what it adds to the sum that counts micro-batches
    in flight; by devices, ascending. flights: [options] most micro-batches a stage ever keeps. compute_s,
    again_s: [options, nodes] (inf: cannot), and more if recomputed. fixed_s: [options] once for a stage
    with parameters; has_params: [nodes]. send_s, receive_s: [options, messages]. node_start,
    node_message, node_role: the messages a node is on, and whether it MAKES them, READS them or both.
    maker_start, makers, reader_start, readers: a message's nodes. beside: whether transfers run beside
    compute, so that the longer of the two counts and not their sum.
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
    node_start: Ints
    node_message: Ints
    node_role: Ints
    maker_start: Ints
    makers: Ints
    reader_start: Ints
    readers: Ints
    beside: bool


class Probe(NamedTuple):
    """The state of `walk_stages` between two calls.

    least: [downsets, devices + 1] least sum of degrees of chains of the downset on so many devices
    (more than ``most_sum``: none); came_from: options * downset before + option of the first stage.
    left_s: [downsets] device-seconds of what is outside, at least. cursor: see SOURCE. short: [2] the
    least time above the target that could change the answer; whether memory turned anything away.
    live, live_count: numbers of devices worth going on from. made, read: [messages] makers and readers in the
    stage; behind: MAKES + READS in the downset before; inside: [nodes] in the stage. path_*: the walk's
    stack; path_first: [depth] how many of the first options can no longer take the set; path_load: [depth,
    options, LOADS], path_bytes: [depth, groups, SUMS], path_received: [depth, groups], path_params:
    [depth] nodes with parameters.
    """

    least: Ids
    came_from: Ints
    left_s: Floats
    cursor: Ints
    short: Floats
    live: Ints
    live_count: Ints
    made: Ints
    read: Ints
    behind: Ints
    inside: Bools
    path_at: Ints
    path_next: Ints
    path_element: Ints
    path_first: Ints
    path_load: Floats
    path_bytes: Floats
    path_received: Floats
    path_params: Ints


@njit(cache=True)
def walk_stages(
    lattice: Lattice, costs: StageCosts, memory: StageMemory, target_s: float, most_sum: int, at: Probe, quota: int
) -> int:
    """Push dynamic programme over pairs of downsets J < I: the stage I minus J comes before those of J.

    From each J, smallest first, the lattice is walked upwards depth-first, adding elements in descending
    order, so that every I is met once. Compute, least memory and the transfers with J only grow along the
    walk, so a branch ends when no option stays within ``target_s`` and the cap. Works on about ``quota``
    pairs; returns DONE or PAUSED.
    """
    _, up_start, up_element, up_to = lattice
    devices, degrees, flights, compute_s, again_of, fixed_s, has_params, send_s, receive_s = costs[:9]
    node_start, node_message, node_role, maker_start, _, reader_start, _, beside = costs[9:]
    group, kept_of, held_of, kept_again_of, held_again_of, workspace_of, received_bytes, by_layer = memory[:8]
    cap_bytes = memory.cap_bytes
    least, came_from, left_s, cursor, short, live, live_count, made, read, behind, inside = at[:11]
    path_at, path_next, path_element, path_first, path_load, path_bytes, path_received, path_params = at[11:]
    options, groups = len(devices), path_bytes.shape[1]
    most_devices, full = least.shape[1] - 1, len(least) - 1
    pairs = looks = relaxations = 0
    source, depth = cursor[SOURCE], cursor[DEPTH]
    while source < full and looks < quota:
        if depth < 0:
            looks += 1
            if not _open(source, target_s, most_sum, at):
                source += 1
                continue
            _look_behind(source, lattice, costs, behind)
            depth = 0
            path_at[0] = source
            path_next[0] = up_start[source]
            path_element[0] = compute_s.shape[1]
            path_load[0] = 0.0
            path_bytes[0] = 0.0
            path_received[0] = 0.0
            path_params[0] = 0
            path_first[0] = 0
        fewest, largest_sum = live[0], least[source, live[0]]
        usable = options  # as many as the devices left are enough for
        while usable > 0 and fewest + devices[usable - 1] > most_devices:
            usable -= 1
        while depth >= 0:
            e = path_next[depth]
            newest = path_element[depth]
            if e >= up_start[path_at[depth] + 1] or up_element[e] > newest:
                if depth > 0:
                    inside[newest] = False
                    for t in range(node_start[newest], node_start[newest + 1]):
                        made[node_message[t]] -= node_role[t] & MAKES
                        read[node_message[t]] -= node_role[t] >> 1
                depth -= 1
                continue
            path_next[depth] = e + 1
            v = up_element[e]
            deeper = depth + 1

            # Which options could still take the set with v? All but the transfers that may be saved counts.
            first = path_first[depth]
            for g in range(0 if by_layer else first, groups if by_layer else usable):
                kept, held = kept_of[g, v], held_of[g, v]
                kept_again, held_again = kept_again_of[g, v], held_again_of[g, v]
                path_bytes[deeper, g, KEPT] = path_bytes[depth, g, KEPT] + kept
                path_bytes[deeper, g, HELD] = path_bytes[depth, g, HELD] + held
                path_bytes[deeper, g, KEPT_AGAIN] = path_bytes[depth, g, KEPT_AGAIN] + kept_again
                path_bytes[deeper, g, HELD_AGAIN] = path_bytes[depth, g, HELD_AGAIN] + held_again
                path_bytes[deeper, g, WORKSPACE] = max(path_bytes[depth, g, WORKSPACE], workspace_of[g, v])
                path_bytes[deeper, g, LEAST] = path_bytes[depth, g, LEAST] + min(kept + held, kept_again + held_again)
            for o in range(first, usable):
                path_load[deeper, o, COMPUTE] = path_load[depth, o, COMPUTE] + compute_s[o, v]
                path_load[deeper, o, SETTLED] = path_load[depth, o, SETTLED]
                path_load[deeper, o, MOVED] = path_load[depth, o, MOVED]
                path_load[deeper, o, AGAIN] = path_load[depth, o, AGAIN] + again_of[o, v]
            for t in range(node_start[v], node_start[v + 1]):
                m, role = node_message[t], node_role[t]
                if role & MAKES and behind[m] & READS and made[m] == 0:
                    for o in range(first, usable):
                        path_load[deeper, o, SETTLED] += send_s[o, m]
                if role & READS and behind[m] & MAKES and read[m] == 0:
                    for o in range(first, usable):
                        path_load[deeper, o, SETTLED] += receive_s[o, m]
            while first < usable:
                g = group[first]
                if path_bytes[deeper, g, LEAST] + path_bytes[deeper, g, WORKSPACE] > cap_bytes:
                    short[1] = 1.0
                else:
                    seconds = _load_s(path_load[deeper, first, COMPUTE], path_load[deeper, first, SETTLED], beside)
                    if seconds <= target_s:
                        break
                    short[0] = min(short[0], seconds)
                first += 1
            path_first[deeper] = first
            if first == usable:
                continue

            # Enter it.
            inside[v] = True
            for g in range(0 if by_layer else first, groups if by_layer else usable):
                path_received[deeper, g] = path_received[depth, g]
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
                    for o in range(first, usable):
                        path_load[deeper, o, MOVED] += more_sent * send_s[o, m] + more_received * receive_s[o, m]
                    for g in range(0 if by_layer else first, groups if by_layer else usable):
                        path_received[deeper, g] += more_received * received_bytes[g, m]
            depth = deeper
            pairs += 1
            target = up_to[e]
            path_at[depth] = target
            path_next[depth] = up_start[target]
            path_element[depth] = v
            path_params[depth] = path_params[depth - 1] + int(has_params[v])

            # Go on from every live state of J. An option that memory leaves alone makes larger ones useless.
            least_free = most_sum + 1
            for o in range(first, usable):
                if degrees[o] >= least_free:
                    continue
                compute = path_load[depth, o, COMPUTE] + (fixed_s[o] if path_params[depth] > 0 else 0.0)
                load_s = _load_s(compute, path_load[depth, o, MOVED], beside)
                if load_s > target_s:
                    short[0] = min(short[0], load_s)
                    continue
                left = most_devices - fewest - devices[o]
                if left_s[target] > left * target_s:
                    if left > 0:
                        short[0] = min(short[0], left_s[target] / left)
                    continue
                degree = degrees[o]
                wanted = min((largest_sum + 2 * degree - 1) // degree, flights[o])
                g = group[o]
                recomputed_s = _load_s(compute + path_load[depth, o, AGAIN], path_load[depth, o, MOVED], beside)
                flying = most_flights(
                    memory, o, path_bytes[depth, g], max(path_received[depth, g], 0.0), inside, again_of[o], load_s,
                    recomputed_s, target_s, wanted, short,
                )  # fmt: skip
                if flying == wanted:
                    least_free = degree
                for i in range(live_count[0]):
                    now = live[i]
                    k = now + devices[o]
                    if k > most_devices:
                        break
                    s = least[source, now] + degree
                    relaxations += 1
                    if s < least[target, k] and min((s + degree - 1) // degree, flights[o]) <= flying:
                        least[target, k] = s
                        came_from[target, k] = options * source + o
            if pairs >= quota:
                cursor[SOURCE], cursor[DEPTH] = source, depth
                cursor[PAIRS] += pairs
                cursor[RELAXATIONS] += relaxations
                return PAUSED
        source += 1
    cursor[SOURCE], cursor[DEPTH] = source, -1
    cursor[PAIRS] += pairs
    cursor[RELAXATIONS] += relaxations
    return DONE if source >= full else PAUSED


@njit(cache=True)
def _load_s(compute_s: float, moved_s: float, beside: bool) -> float:
    return max(compute_s, moved_s) if beside else compute_s + moved_s


@njit(cache=True)
def _open(source: int, target_s: float, most_sum: int, at: Probe) -> bool:
    """Gather the numbers of devices on which ``source`` is worth going on from: fewer do not do with as
    small a sum, and what is left can be done on the rest within the target. Whether there is any."""
    count = 0
    best = most_sum + 1
    most = at.least.shape[1] - 1
    for k in range(most):
        if at.least[source, k] >= best:
            continue
        best = at.least[source, k]
        if at.left_s[source] > (most - k) * target_s:
            at.short[0] = min(at.short[0], at.left_s[source] / (most - k))
            break  # with more devices used even less is left
        at.live[count] = k
        count += 1
    at.live_count[0] = count
    at.cursor[STATES] += count
    return count > 0


@njit(cache=True)
def _look_behind(source: int, lattice: Lattice, costs: StageCosts, behind: Ints) -> None:
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
