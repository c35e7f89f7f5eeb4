"""Peak memory of a simulated pass of operators, on plain arrays: the rules of `solvers.evaluation.unit_bytes`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.evaluation.holds_kernel import peaks_of
from solvers.evaluation.tasks import Holds
from solvers.joint.passes.arrays_kernel import NONE, TASKS, UPDATE, PassArrays, PassState
from solvers.kernels.arrays import Floats, Ints
from solvers.kernels.lazy import njit


@njit(cache=True)
def _released(a: PassArrays, s: PassState) -> Floats:
    """When what an operator keeps may be dropped: with the last backward of its forward operator."""
    operators = len(a.group_of)
    last = np.zeros(operators)
    for i in range(operators):
        if 0 < a.held.phase[i] < UPDATE:
            last[a.held.home[i]] = max(last[a.held.home[i]], s.end_s[i])
    until = np.empty(operators)
    for i in range(operators):
        until[i] = max(last[a.held.home[i]], s.end_s[i])
    return until


@njit(cache=True)
def least_room_bytes(a: PassArrays, s: PassState) -> float:
    """The least that any device has left if all that it ever holds were held at once; never more than what
    `peak_room_bytes` finds, and quick."""
    devices = len(a.wiring.one_by_one)
    operators = len(a.group_of)
    held = np.zeros(devices)
    working = np.zeros(devices)
    for i in range(operators):
        d = s.device[i]
        held[d] += a.held.static_bytes[i] + a.held.saved_bytes[i]
        working[d] = max(working[d], a.held.working_bytes[i])
    if a.held.counts_buffers:
        for task in range(operators, s.counts[TASKS]):
            m = s.message[task]
            held[s.device[task]] += a.wiring.message_bytes[m]
            if s.target[task] != s.device[task]:
                held[s.target[task]] += a.wiring.message_bytes[m]
        for m in range(len(a.held.tensor_bytes)):
            if a.held.tensor_bytes[m] > 0:
                for e in range(a.producer_start[m], a.producer_start[m + 1]):
                    held[s.device[a.producer[e]]] += a.held.tensor_bytes[m]
    room = np.inf
    for d in range(devices):
        parallel = 1.0 if a.wiring.one_by_one[d] else float(operators)
        room = min(room, a.held.memory_bytes[d] - held[d] - working[d] * parallel)
    return room


class _Held(NamedTuple):
    """What is held while it is found out, with room for all of it."""

    device: Ints
    """[holds]"""
    times: Floats
    """[2, holds] s since when and until when; what is held for no time is a peak of its own"""
    nbytes: Floats
    """[holds] B"""
    size: Ints
    """[1] how many of them there are"""


@njit(cache=True)
def _hold(held: _Held, device: int, since: float, until: float, nbytes: float) -> None:
    if nbytes > 0:
        k = held.size[0]
        held.device[k], held.times[0, k], held.times[1, k], held.nbytes[k] = device, since, until, nbytes
        held.size[0] = k + 1


@njit(cache=True)
def peak_bytes(a: PassArrays, s: PassState) -> Floats:
    """Most bytes held at once on every device in the pass that `run_pass` left in ``s``, [devices]."""
    operators = len(a.group_of)
    most = 2 * operators + 2 * (s.counts[TASKS] - operators) + len(a.producer)
    held = _Held(np.empty(most, np.int64), np.empty((2, most)), np.empty(most), np.zeros(1, np.int64))
    until = _released(a, s)
    static = np.zeros(len(a.wiring.one_by_one))
    for i in range(operators):
        static[s.device[i]] += a.held.static_bytes[i]
        _hold(held, s.device[i], s.start_s[i], until[i], a.held.saved_bytes[i])
        _hold(held, s.device[i], s.start_s[i], s.end_s[i], a.held.working_bytes[i])
    if a.held.counts_buffers:
        _tensors(a, s, held)
        _buffers(a, s, until, held)
    count = held.size[0]
    # Each hold begins with a task of its own, which is an instant, and ends with another.
    instant = _instants(held.times[:, :count].copy().ravel())
    one = np.arange(count + 1)
    holds = Holds(
        device=held.device[:count], nbytes=held.nbytes[:count], since_start=one, since=one[:count],
        from_end=np.zeros(count, np.bool_), until_start=one, until=one[:count] + count,
    )  # fmt: skip
    return peaks_of(holds, instant, instant, static)


@njit(cache=True)
def _instants(times: Floats) -> Ints:
    """The number of each time among those that differ, the earliest 0."""
    order = np.argsort(times)
    instant = np.zeros(len(times), np.int64)
    for k in range(1, len(order)):
        before, now = order[k - 1], order[k]
        instant[now] = instant[before] + (times[now] > times[before])
    return instant


@njit(cache=True)
def _tensors(a: PassArrays, s: PassState, held: _Held) -> None:
    """Tensors that wait on their device for readers there."""
    for m in range(len(a.held.tensor_bytes)):
        if a.held.tensor_bytes[m] <= 0:
            continue
        for e in range(a.producer_start[m], a.producer_start[m + 1]):
            producer = a.producer[e]
            last = -1.0
            for f in range(a.reader_start[m], a.reader_start[m + 1]):
                reader = a.reader[f]
                if s.device[reader] == s.device[producer] and a.held.phase[reader] != UPDATE:
                    last = max(last, s.end_s[reader])
            if last >= 0:
                _hold(held, s.device[producer], s.end_s[producer], last, a.held.tensor_bytes[m])


@njit(cache=True)
def _buffers(a: PassArrays, s: PassState, until: Floats, held: _Held) -> None:
    """Buffers of transfers at both ends."""
    operators = len(a.group_of)
    devices = len(a.wiring.one_by_one)
    sent = {NONE: 0.0}  # of every message and sender, when its last transfer ends
    for task in range(operators, s.counts[TASKS]):
        m, src, dst = s.message[task], s.device[task], s.target[task]
        if dst != src:
            if s.resource[task] == NONE:  # a CPU, which takes it as it leaves
                continue
            last = 0.0
            for e in range(a.reader_start[m], a.reader_start[m + 1]):
                reader = a.reader[e]
                if s.device[reader] == dst:
                    last = max(last, until[reader] if a.held.phase[reader] == 0 else s.end_s[reader])
            _hold(held, dst, s.start_s[task], last, a.wiring.message_bytes[m])
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
            _hold(held, src, since, last, a.wiring.message_bytes[m])
