"""Peak memory of a simulated pass of operators, on plain arrays: the rules of `solvers.evaluation.unit_bytes`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from solvers.joint.passes.arrays_kernel import NONE, UPDATE, PassArrays, PassState
from solvers.kernels.arrays import Floats
from solvers.kernels.lazy import njit
from solvers.kernels.plain import ZERO


@njit(cache=True)
def _released(a: PassArrays, s: PassState) -> Floats:
    """When what an operator keeps may be dropped: with the last backward of its forward operator."""
    operators = len(a.group_of)
    last = np.zeros(operators)
    for i in range(operators):
        if 0 < a.phase[i] < UPDATE:
            last[a.home[i]] = max(last[a.home[i]], s.end_s[i])
    until = np.empty(operators)
    for i in range(operators):
        until[i] = max(last[a.home[i]], s.end_s[i])
    return until


@njit(cache=True)
def least_room_bytes(a: PassArrays, s: PassState) -> float:
    """The least that any device has left if all that it ever holds were held at once; never more than what
    `peak_room_bytes` finds, and quick."""
    devices = len(a.one_by_one)
    operators = len(a.group_of)
    held = np.zeros(devices)
    working = np.zeros(devices)
    for i in range(operators):
        d = s.device[i]
        held[d] += a.static_bytes[i] + a.saved_bytes[i]
        working[d] = max(working[d], a.working_bytes[i])
    if a.counts_buffers:
        for task in range(operators, s.counts[0]):
            m = s.message[task]
            held[s.device[task]] += a.message_bytes[m]
            if s.target[task] != s.device[task]:
                held[s.target[task]] += a.message_bytes[m]
        for m in range(len(a.tensor_bytes)):
            if a.tensor_bytes[m] > 0:
                for e in range(a.producer_start[m], a.producer_start[m + 1]):
                    held[s.device[a.producer[e]]] += a.tensor_bytes[m]
    room = np.inf
    for d in range(devices):
        parallel = 1.0 if a.one_by_one[d] else float(operators)
        room = min(room, a.memory_bytes[d] - held[d] - working[d] * parallel)
    return room


@njit(cache=True)
def _note(
    device: int, since: float, until: float, nbytes: float, where: NDArray[np.int64], when: Floats, change: Floats,
    count: int,
) -> int:  # fmt: skip
    """Record that bytes are held; the new number of records. What is held for no time is a peak of its own,
    recorded as one bound to the instant."""
    if nbytes <= 0:
        return count
    where[count], when[count], change[count] = device, since, nbytes
    where[count + 1], when[count + 1], change[count + 1] = device, until, -nbytes
    return count + 2


@njit(cache=True)
def peak_bytes(a: PassArrays, s: PassState) -> Floats:
    """Most bytes held at once on every device in the pass that `run_pass` left in ``s``, [devices]."""
    devices = len(a.one_by_one)
    operators = len(a.group_of)
    most = 2 * (2 * operators + 2 * (s.counts[0] - operators) + len(a.producer))
    where, when, change = np.empty(most, np.int64), np.empty(most), np.empty(most)
    count = ZERO
    until = _released(a, s)
    level = np.zeros(devices)
    for i in range(operators):
        level[s.device[i]] += a.static_bytes[i]
        count = _note(s.device[i], s.start_s[i], until[i], a.saved_bytes[i], where, when, change, count)
        count = _note(s.device[i], s.start_s[i], s.end_s[i], a.working_bytes[i], where, when, change, count)
    if a.counts_buffers:
        count = _lying(a, s, where, when, change, count)
        count = _moving(a, s, until, where, when, change, count)
    return _most_held(level, where[:count], when[:count], change[:count])


@njit(cache=True)
def _lying(
    a: PassArrays, s: PassState, where: NDArray[np.int64], when: Floats, change: Floats, count: int
) -> int:  # fmt: skip
    """Tensors that wait on their device for readers there."""
    for m in range(len(a.tensor_bytes)):
        if a.tensor_bytes[m] <= 0:
            continue
        for e in range(a.producer_start[m], a.producer_start[m + 1]):
            producer = a.producer[e]
            last = -1.0
            for f in range(a.reader_start[m], a.reader_start[m + 1]):
                reader = a.reader[f]
                if s.device[reader] == s.device[producer] and a.phase[reader] != UPDATE:
                    last = max(last, s.end_s[reader])
            if last >= 0:
                count = _note(
                    s.device[producer], s.end_s[producer], last, a.tensor_bytes[m], where, when, change, count
                )  # fmt: skip
    return count


@njit(cache=True)
def _moving(
    a: PassArrays, s: PassState, until: Floats, where: NDArray[np.int64], when: Floats, change: Floats, count: int
) -> int:  # fmt: skip
    """Buffers of transfers at both ends."""
    operators = len(a.group_of)
    devices = len(a.one_by_one)
    sent = {NONE: 0.0}  # of every message and sender, when its last transfer ends
    for task in range(operators, s.counts[0]):
        m, src, dst = s.message[task], s.device[task], s.target[task]
        if dst != src:
            if s.resource[task] == NONE:  # a CPU, which takes it as it leaves
                continue
            last = 0.0
            for e in range(a.reader_start[m], a.reader_start[m + 1]):
                reader = a.reader[e]
                if s.device[reader] == dst:
                    last = max(last, until[reader] if a.phase[reader] == 0 else s.end_s[reader])
            count = _note(dst, s.start_s[task], last, a.message_bytes[m], where, when, change, count)
        key = m * devices + src
        sent[key] = max(sent.get(key, 0.0), s.end_s[task])
    for key, last in sent.items():
        if key == NONE:
            continue
        m, src = key // devices, key % devices
        since = np.inf
        for e in range(a.producer_start[m], a.producer_start[m + 1]):
            if s.device[a.producer[e]] == src:
                since = min(since, s.end_s[a.producer[e]])
        if since < np.inf:
            count = _note(src, since, last, a.message_bytes[m], where, when, change, count)
    return count


@njit(cache=True)
def _most_held(level: Floats, where: NDArray[np.int64], when: Floats, change: Floats) -> Floats:
    """The highest level of every device; at an instant what ends is freed before anything is taken, and what is
    held for no time stands alone."""
    peak = level.copy()
    order = np.argsort(when)
    taken = np.zeros(len(level))
    spike = np.zeros(len(level))
    i = 0
    while i < len(order):
        now = when[order[i]]
        j = i
        while j < len(order) and when[order[j]] == now:
            e = order[j]
            d = where[e]
            if e % 2 == 0:  # taken; its end is the next record
                if when[e + 1] == now:
                    spike[d] = max(spike[d], change[e])
                else:
                    taken[d] += change[e]
            elif when[e - 1] != now:
                level[d] += change[e]
            j += 1
        for k in range(i, j):
            d = where[order[k]]
            peak[d] = max(peak[d], level[d] + spike[d])
            level[d] += taken[d]
            peak[d] = max(peak[d], level[d])
            taken[d] = 0.0
            spike[d] = 0.0
        i = j
    return peak
