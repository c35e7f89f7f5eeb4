"""What a simulation of one pass of operators reads and writes, as plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.kernels.arrays import Bools, Floats, Ints

NONE = -1
ARRIVAL, OPERATOR, DEPARTURE = 0, 1, 2
"""Kinds of tasks; of equally urgent ones the lower kind goes first."""
UPDATE = 3
"""The number of the update among the phases."""


class PassArrays(NamedTuple):
    """What does not hang on the plan. Seconds and bytes; CSR rows are ``x[x_start[i] : x_start[i + 1]]``.

    seconds: [operators, devices]. group_of: the group of every operator. waits: producers of the messages that
    an operator reads, plus one for a mirror. made: messages of every operator. mirror: mirrors of every
    operator. producer, reader: of every message. message_tensors: latencies of a message. latency_s,
    per_byte_s: [devices, devices], inf without a link. leave: the resource that sending occupies, per device,
    or NONE. arrive: [devices, devices] the resource that a transfer (its receiving half, if ``leave``)
    occupies, or NONE. one_by_one: whether a device runs one operator at a time. resources: how many there
    are, devices first. Memory: memory_bytes per device, static, saved and working bytes per operator,
    tensor_bytes of every message while it lies on the device that made it. home: the forward operator of
    every mirror, else itself. phase: its number. counts_buffers: whether transfers and what they hold count.
    """

    seconds: Floats
    group_of: Ints
    waits: Ints
    made_start: Ints
    made: Ints
    mirror_start: Ints
    mirror: Ints
    producer_start: Ints
    producer: Ints
    reader_start: Ints
    reader: Ints
    message_bytes: Floats
    message_tensors: Floats
    message_stated_s: Floats
    latency_s: Floats
    per_byte_s: Floats
    leave: Ints
    arrive: Ints
    one_by_one: Bools
    resources: np.int64
    memory_bytes: Floats
    static_bytes: Floats
    saved_bytes: Floats
    working_bytes: Floats
    tensor_bytes: Floats
    home: Ints
    phase: Ints
    counts_buffers: np.bool_


class PassState(NamedTuple):
    """Working arrays of one simulation, and its outcome; tasks are operators first, then transfers.

    device, start_s, end_s: of every task (of a transfer, the sender). message, target: of every transfer, NONE
    for operators; target is the sender itself for a sending half. sequence: when an operator was begun, as a
    count. counts: [0] how many tasks there are. The rest is scratch.
    """

    device: Ints
    start_s: Floats
    end_s: Floats
    message: Ints
    target: Ints
    sequence: Ints
    counts: Ints
    priority: Floats
    code: Ints
    resource: Ints
    waiting: Ints
    missing: Ints
    waits_for: Ints
    is_busy: Bools
    keys: Floats
    queued: Ints
    events: Ints
    ready: Ints
    dirty: Ints
    is_dirty: Bools
    half: Ints
    towards: Ints
    urgent: Floats
    load_s: Floats


def state_for(arrays: PassArrays) -> PassState:
    """Fresh working arrays; one set serves any number of simulations, one after the other."""
    operators, devices = arrays.seconds.shape
    makers, readers = np.diff(arrays.producer_start), np.diff(arrays.reader_start)
    most = int((makers * (1 + np.minimum(readers, devices - 1))).sum()) if devices > 1 else 0
    tasks, messages, resources = operators + most, len(makers), int(arrays.resources)

    def ints(size: int) -> Ints:
        return np.zeros(size, np.int64)

    return PassState(
        device=ints(tasks), start_s=np.zeros(tasks), end_s=np.zeros(tasks), message=np.full(tasks, NONE, np.int64),
        target=np.full(tasks, NONE, np.int64), sequence=ints(operators), counts=ints(1), priority=np.zeros(tasks),
        code=ints(tasks), resource=ints(tasks), waiting=ints(operators), missing=ints(messages * devices),
        waits_for=ints(resources), is_busy=np.zeros(resources, np.bool_), keys=np.empty(resources * tasks),
        queued=np.empty(resources * tasks, np.int64), events=ints(tasks),
        ready=ints(tasks), dirty=ints(resources), is_dirty=np.zeros(resources, np.bool_),
        half=ints(tasks), towards=ints(devices), urgent=np.zeros(devices), load_s=np.zeros(resources),
    )  # fmt: skip


@njit(cache=True)
def transfer_s(a: PassArrays, m: int, src: int, dst: int) -> float:
    """Seconds of one transfer of message ``m`` between two devices."""
    if a.message_tensors[m] == 0:
        return 0.0
    seconds: float = a.message_tensors[m] * a.latency_s[src, dst] + a.message_bytes[m] * a.per_byte_s[src, dst]
    seconds += a.message_stated_s[m]
    return seconds
