"""How many micro-batches a stage of Piper can keep in flight, with or without recomputation.

Tarnawski, Narayanan, Phanishayee, "Piper: Multidimensional Planner for DNN Parallelization", NeurIPS
2021, section 4 and appendix on the knapsack of ways.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.uncounted import inlined, uncounted

Ids = NDArray[np.int32]

SAVED, HELD, SAVED_AGAIN, HELD_AGAIN, WORKSPACE, LEAST = 0, 1, 2, 3, 4, 5
SUMS = 6
"""Columns of a stage's bytes: saved per micro-batch in flight and held all the time, as it is and if
everything is recomputed; the largest workspace; the least with one micro-batch in flight."""
ABOVE_S, MEMORY = 0, 1
"""What a target was too small for: the least time above it that could change the answer; 1 where memory turned
anything away."""


class StageMemory(NamedTuple):
    """Bytes of the layers (or super-operators) of a stage, by group of options that need the same.

    group: [options], that of an option itself where ``by_layer`` is false. kept_bytes, held_bytes:
    [groups, nodes] per micro-batch in flight, and all the time; kept_again_bytes, held_again_bytes: if the
    node is recomputed. workspace_bytes: [groups, nodes], of which a stage needs the largest.
    received_bytes: [groups, messages] per micro-batch in flight of a stage that receives it. by_layer:
    whether each node of a stage may be recomputed by itself, or all or none. cheapest: [groups, flights,
    nodes] the nodes whose recomputation saves memory with so many micro-batches in flight, least seconds
    per byte first, then -1; used only by layer. cap_bytes: of a device.
    """

    group: Ints
    kept_bytes: Floats
    held_bytes: Floats
    kept_again_bytes: Floats
    held_again_bytes: Floats
    workspace_bytes: Floats
    received_bytes: Floats
    by_layer: bool
    cheapest: Ids
    cap_bytes: float


class StageSums(NamedTuple):
    """A stage under one option.

    group: of the option. nbytes: [SUMS]. received_bytes: per micro-batch in flight. inside: [nodes]. again_s: [nodes]
    seconds more if a node is recomputed. load_s, recomputed_s: seconds without recomputation, and if all is recomputed.
    """

    group: int
    nbytes: Floats
    received_bytes: float
    inside: Bools
    again_s: Floats
    load_s: float
    recomputed_s: float


@inlined
def flights_within(cap: float, saved: float, held: float, wanted: int) -> int:
    """The most micro-batches in flight, at most ``wanted``, that leave a sum within ``cap``."""
    if held + wanted * saved <= cap:
        return wanted
    if held > cap:
        return 0
    fits = int(min((cap - held) / saved, float(wanted)))
    while fits > 0 and held + fits * saved > cap:
        fits -= 1
    return fits


@uncounted
def most_flights(memory: StageMemory, stage: StageSums, target_s: float, wanted: int, short: Floats) -> int:
    """The most micro-batches in flight, at most ``wanted``, with which a stage takes at most ``target_s``, which it
    does without recomputation.

    short: see ABOVE_S, with the least time that would allow more. By layer a stage that can keep y micro-batches must
    also be able to keep fewer.
    """
    sums, received = stage.nbytes, stage.received_bytes
    cap = memory.cap_bytes - sums[WORKSPACE]
    plain = flights_within(cap, sums[SAVED] + received, sums[HELD], wanted)
    if plain == wanted:
        return wanted
    short[MEMORY] = 1.0
    if not memory.by_layer:
        recomputed = flights_within(cap, sums[SAVED_AGAIN] + received, sums[HELD_AGAIN], wanted)
        if recomputed <= plain:
            return plain
        if stage.recomputed_s <= target_s:
            return recomputed
        short[ABOVE_S] = min(short[ABOVE_S], stage.recomputed_s)
        return plain
    if stage.recomputed_s <= target_s:
        low, high = plain, wanted + 1  # fits with low, not with high
        while high - low > 1:
            middle = (low + high) // 2
            if greedy_s(memory, stage, cap, middle) < np.inf:
                low = middle
            else:
                high = middle
        return low
    while plain < wanted:
        seconds = greedy_s(memory, stage, cap, plain + 1)
        if seconds > target_s:
            short[ABOVE_S] = min(short[ABOVE_S], seconds)
            break
        plain += 1
    return plain


@uncounted
def greedy_s(memory: StageMemory, stage: StageSums, cap: float, flights: int) -> float:
    """Seconds of a stage that recomputes the cheapest nodes until it fits; inf if it never does.

    The heuristic for the knapsack of ways that Piper's appendix finds almost always optimal.
    """
    group, seconds = stage.group, stage.load_s
    over = stage.nbytes[HELD] + flights * stage.nbytes[SAVED] - cap
    if over <= 0:
        return seconds
    order = memory.cheapest[group, flights - 1]
    for rank in range(len(order)):
        node = order[rank]
        if node < 0:
            break
        if not stage.inside[node]:
            continue
        seconds += stage.again_s[node]
        over -= memory.held_bytes[group, node] - memory.held_again_bytes[group, node]
        over -= flights * (memory.kept_bytes[group, node] - memory.kept_again_bytes[group, node])
        if over <= 0:
            return float(seconds)
    return np.inf
