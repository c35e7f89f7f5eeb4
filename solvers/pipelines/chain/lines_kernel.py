"""Costs of operators in one linear order, and the exact iteration of a pipeline cut from it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit
from solvers.kernels.plain import NO, YES

LATENT, BLOCKING = 0, 1
"""Transfers take time between devices; or they also keep both ends busy."""


class Line(NamedTuple):
    """Atoms in a linear order, at one number of samples per micro-batch; a stage is atoms [i, j).

    degrees: how many devices may share a stage, ascending, [degrees]. forward_s, backward_s,
    saved_bytes: of one of so many devices, for all atoms before a position, [degrees, atoms + 1].
    workspace_bytes: [degrees, atoms]. static_bytes, param_bytes: for all atoms before a position.
    sent_s, returned_s: forward tensors that leave atoms [i, j) for later ones, gradients that come back;
    kept_bytes: forward tensors that they receive, and sent_bytes send, [degrees, atoms + 1, atoms + 1].
    sync_s, sync_s_per_byte: all-reduce of gradients among the devices of a stage, [degrees].
    message i goes from atoms makers[makers_start[i]:makers_start[i + 1]] to the readers (both ascending)
    in message_s[degree, i] seconds, with the larger degree of the two ends; is_gradient tells its pass.
    """

    degrees: Ints
    forward_s: Floats
    backward_s: Floats
    saved_bytes: Floats
    workspace_bytes: Floats
    static_bytes: Floats
    param_bytes: Floats
    sent_s: Floats
    returned_s: Floats
    kept_bytes: Floats
    sent_bytes: Floats
    sync_s: Floats
    sync_s_per_byte: Floats
    makers_start: Ints
    makers: Ints
    readers_start: Ints
    readers: Ints
    is_gradient: NDArray[np.bool_]
    message_s: Floats


class Rules(NamedTuple):
    """How a line is run. micro_batches: M. all_in_flight: every stage keeps all M (GPipe); else as many as
    stages follow it. keeps: whether there is a backward. recompute: stages may. transfers: LATENT or BLOCKING."""

    devices: int
    micro_batches: int
    memory_bytes: float
    all_in_flight: bool
    keeps: bool
    recompute: bool
    transfers: int


@njit(cache=True)
def stage_bytes(line: Line, i: int, j: int, degree: int, flight: float, again: bool, workspace: float) -> float:
    """Peak memory of atoms [i, j) with so many micro-batches in flight."""
    saved = line.saved_bytes[degree, j] - line.saved_bytes[degree, i]
    nbytes = line.static_bytes[degree, j] - line.static_bytes[degree, i] + workspace + line.sent_bytes[degree, i, j]
    return float(nbytes + (saved if again else saved * flight) + flight * line.kept_bytes[degree, i, j])


@njit(cache=True)
def _depths(linked: Floats, stages: int, depth: Ints) -> None:
    """Stages on the longest path from each to a sink."""
    for s in range(stages - 1, -1, -1):
        depth[s] = 1
        for v in range(s + 1, stages):
            if linked[s, v] >= 0.0:
                depth[s] = max(depth[s], depth[v] + 1)


@njit(cache=True)
def _link(line: Line, stage_of: Ints, which: Ints, ahead: Floats, back: Floats) -> None:
    """Seconds of all tensors between each pair of stages, -1 where there are none. ahead[u, v]: from u
    to v > u, forward; back[u, v]: from v to u, backward. which: each stage's degree."""
    ahead[:] = -1.0
    back[:] = -1.0
    for message in range(line.message_s.shape[1]):
        first, end = line.makers_start[message], line.makers_start[message + 1]
        begin, stop = line.readers_start[message], line.readers_start[message + 1]
        last_u = -1
        for p in range(first, end):
            u = stage_of[line.makers[p]]
            if u == last_u:
                continue
            last_u = u
            last_v = -1
            for q in range(begin, stop):
                v = stage_of[line.readers[q]]
                if v in (last_v, u):
                    continue
                last_v = v
                seconds = line.message_s[max(which[u], which[v]), message]
                if line.is_gradient[message]:
                    if v < u:
                        back[v, u] = max(back[v, u], 0.0) + seconds
                elif u < v:
                    ahead[u, v] = max(ahead[u, v], 0.0) + seconds


@njit(cache=True)
def iteration_s(
    line: Line, rules: Rules, cuts: Ints, which: Ints, again: NDArray[np.bool_], slack: int, kept: Ints
) -> float:
    """Seconds of one iteration of 1F1B (or GPipe), simulated; inf if a stage does not fit.

    cuts: where the stages begin and end, [stages + 1]. which: their degrees, as positions in
    line.degrees. again: whether they recompute; set where that is needed and allowed. slack: how many times
    what the rule asks for is in flight beyond it, where it fits: with one more for every stage that
    follows, the transfers between any two stages are hidden. kept: those of every stage, filled in. Links
    are waited for but never crowded, which is what the full simulation adds.
    """
    stages = len(which)
    total = rules.micro_batches
    stage_of = np.empty(cuts[stages], np.int64)
    for s in range(stages):
        stage_of[cuts[s] : cuts[s + 1]] = s
    ahead, back = np.empty((stages, stages)), np.empty((stages, stages))
    _link(line, stage_of, which, ahead, back)
    depth = np.empty(stages, np.int64)
    _depths(ahead, stages, depth)
    forward_s, backward_s, sync_s = np.empty(stages), np.empty(stages), np.empty(stages)
    for s in range(stages):
        i, j, d = cuts[s], cuts[s + 1], which[s]
        workspace = 0.0
        for atom in range(i, j):
            workspace = max(workspace, line.workspace_bytes[d, atom])
        flight = total if rules.all_in_flight else min(depth[s], total)
        if not rules.keeps:
            flight = 1
        again[s] = False
        if stage_bytes(line, i, j, d, flight, NO, workspace) > rules.memory_bytes:
            if not rules.recompute or stage_bytes(line, i, j, d, flight, YES, workspace) > rules.memory_bytes:
                return np.inf
            again[s] = True
        while (
            rules.keeps
            and flight < min(depth[s] * (1 + slack), total)
            and stage_bytes(line, i, j, d, flight + 1, again[s], workspace) <= rules.memory_bytes
        ):
            flight += 1
        kept[s] = flight
        forward_s[s] = line.forward_s[d, j] - line.forward_s[d, i]
        backward_s[s] = line.backward_s[d, j] - line.backward_s[d, i] + (forward_s[s] if again[s] else 0.0)
        params = line.param_bytes[j] - line.param_bytes[i]
        sync_s[s] = line.sync_s[d] + line.sync_s_per_byte[d] * params if params > 0 else 0.0
    if rules.transfers == BLOCKING:
        for u in range(stages):
            for v in range(u + 1, stages):
                if ahead[u, v] > 0.0:
                    forward_s[u] += ahead[u, v]
                    forward_s[v] += ahead[u, v]
                    ahead[u, v] = 0.0
                if back[u, v] > 0.0:
                    backward_s[u] += back[u, v]
                    backward_s[v] += back[u, v]
                    back[u, v] = 0.0
    return _run(rules, ahead, back, forward_s, backward_s, sync_s, kept)


@njit(cache=True)
def _run(
    rules: Rules, ahead: Floats, back: Floats, forward_s: Floats, backward_s: Floats, sync_s: Floats, kept: Ints
) -> float:
    """Every stage works through its forwards and backwards in its order as the inputs come in."""
    stages, total = len(forward_s), rules.micro_batches
    forward_end = np.full((stages, total), -1.0)
    backward_end = np.full((stages, total), -1.0)
    forwards, backwards = np.zeros(stages, np.int64), np.zeros(stages, np.int64)
    free = np.zeros(stages)
    last = total if rules.keeps else 0
    left = stages * (total + last)
    while left:
        before = left
        for sweep in range(2 * stages):
            s = sweep if sweep < stages else 2 * stages - 1 - sweep
            while True:
                j, k = forwards[s], backwards[s]
                go = j < total and (not rules.keeps or j - k < kept[s])
                if not go and k >= last:
                    break
                start = free[s]
                ready = True
                if go:
                    for u in range(s):
                        if ahead[u, s] >= 0.0:
                            if forward_end[u, j] < 0.0:
                                ready = False
                                break
                            start = max(start, forward_end[u, j] + ahead[u, s])
                else:
                    for v in range(s + 1, stages):
                        if back[s, v] >= 0.0:
                            if backward_end[v, k] < 0.0:
                                ready = False
                                break
                            start = max(start, backward_end[v, k] + back[s, v])
                if not ready:
                    break
                if go:
                    free[s] = start + forward_s[s]
                    forward_end[s, j] = free[s]
                    forwards[s] = j + 1
                else:
                    free[s] = start + backward_s[s]
                    backward_end[s, k] = free[s]
                    backwards[s] = k + 1
                left -= 1
        if left == before:
            return np.inf  # too few in flight to go on
    return float((free + sync_s).max())
