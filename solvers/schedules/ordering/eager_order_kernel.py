"""The order of devices that run several stages, on plain arrays: whatever is ready first."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.heap_kernel import pop, push
from solvers.kernels.lazy import njit
from solvers.kernels.plain import ZERO


class EagerActions(NamedTuple):
    """Forward and backward of stage s as actions 2 s and 2 s + 1.

    has, seconds: whether there is such an action, and its seconds for a micro-batch, [actions]. counts, size,
    in_flight: micro-batches, samples of one, and how many may be in flight, [stages]. Stage s runs on the
    devices at[at_start[s]:at_start[s + 1]]; action a reads what the actions
    reads[read_start[a]:read_start[a + 1]] make, all of which there are.
    """

    has: Bools
    seconds: Floats
    counts: Ints
    size: Ints
    in_flight: Ints
    at_start: Ints
    at: Ints
    read_start: Ints
    reads: Ints


@njit(cache=True)
def _readers(actions: EagerActions) -> tuple[Ints, Ints]:
    """The actions that may become ready when one ends: its readers, and those of its own stage."""
    many = len(actions.has)
    start = np.zeros(many + 1, np.int64)
    for b in actions.reads:
        start[b + 1] += 1
    for a in range(many):
        start[a + 1] += start[a] + 2
    at, readers = start[:-1].copy(), np.empty(start[many], np.int64)
    for a in range(many):
        readers[at[a]], readers[at[a] + 1] = a - a % 2, a - a % 2 + 1
        at[a] += 2
    for a in range(many):
        for e in range(actions.read_start[a], actions.read_start[a + 1]):
            b = actions.reads[e]
            readers[at[b]] = a
            at[b] += 1
    return start, readers


@njit(cache=True)
def eager(actions: EagerActions, devices: int, forward_first: bool) -> Ints:
    """The actions in the order in which they start, see `solvers.schedules.ordering.eager_order.eager_order`; every
    action takes its micro-batches in turn. Shorter than there are if stages wait for each other."""
    has, seconds, counts, size, in_flight, at_start, at, read_start, reads = actions
    many = len(has)
    reader_start, readers = _readers(actions)
    begin = np.zeros(many + 1, np.int64)
    for a in range(many):
        begin[a + 1] = begin[a] + (counts[a // 2] if has[a] else 0)
    sequence, ended = np.zeros(begin[many], np.int64), np.zeros(begin[many])
    following = np.zeros(many, np.int64)
    free = np.zeros(devices)
    start, ready = np.zeros(many), np.zeros(many)
    # Of those that could start at once: by direction, then by sample, then forward from the last stage, backward from
    # the first.
    stages, samples, turn = many // 2, 1, np.zeros(many, np.int64)
    for s in range(stages):
        samples = max(samples, counts[s] * size[s] + 1)
    # The ready actions, by when they could start. Devices only get busier, so an entry is at most too
    # early: the first one whose time still holds is the next to run.
    queued, keys, heap = np.zeros(many, np.bool_), np.zeros(many), np.zeros(many, np.int64)
    heaped, done = ZERO, 0
    todo, looks = np.arange(many), many
    while True:
        for r in range(looks):
            a = todo[r]
            s, j = a // 2, following[a]
            if not has[a] or queued[a] or j == counts[s]:
                continue
            if a % 2 == 0 and has[a + 1] and j - following[a + 1] >= in_flight[s]:
                continue
            when, known = 0.0, True
            for e in range(read_start[a], read_start[a + 1]):
                b = reads[e]
                last = j
                if counts[b // 2] != counts[s]:  # the last one that has samples of this micro-batch
                    last = -(-(j + 1) * counts[b // 2] // counts[s]) - 1
                if following[b] <= last:
                    known = False
                    break
                when = max(when, ended[begin[b] + last])
            if known:
                queued[a] = True
                ready[a], start[a] = when, _free_from(actions, a, when, free)
                second = int((a % 2 == 0) != forward_first)
                turn[a] = (second * samples + j * size[s]) * stages + (stages - 1 - s if a % 2 == 0 else s)
                push(keys, heap, ZERO, heaped, start[a], a, turn)
                heaped += 1
        if heaped == 0:
            return sequence[:done]
        a = pop(keys, heap, ZERO, heaped, turn)
        heaped -= 1
        s = a // 2
        possible = _free_from(actions, a, start[a], free)
        if possible > start[a]:
            start[a] = possible
            push(keys, heap, ZERO, heaped, start[a], a, turn)
            heaped += 1
            looks = 0
            continue
        end = start[a] + seconds[a]
        ended[begin[a] + following[a]] = end
        for k in range(at_start[s], at_start[s + 1]):
            free[at[k]] = end
        sequence[done] = a
        done += 1
        following[a] += 1
        queued[a] = False
        looks = reader_start[a + 1] - reader_start[a]
        todo = readers[reader_start[a] : reader_start[a + 1]]


@njit(cache=True)
def _free_from(actions: EagerActions, a: int, ready: float, free: Floats) -> float:
    """When an action that is ready could start on all its devices."""
    when = ready
    for k in range(actions.at_start[a // 2], actions.at_start[a // 2 + 1]):
        when = max(when, free[actions.at[k]])
    return when
