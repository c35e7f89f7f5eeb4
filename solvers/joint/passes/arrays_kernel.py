"""What a simulation of one pass of operators reads and writes, as plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.uncounted import inlined

NONE = -1
ARRIVAL, OPERATOR, DEPARTURE = 0, 1, 2
"""Kinds of tasks; of equally urgent ones the lower kind goes first."""
UPDATE = 3
"""The number of the update among the phases."""
TASKS, READY, DIRTY, EVENTS, BEGUN, DONE = range(6)
"""Places in `PassState.counts`: tasks made so far; how much of ``ready``, ``dirty`` and ``events`` is in use; operators
begun, and done."""


class Wiring(NamedTuple):
    """What transfers take, and what they occupy: of operators in `PassArrays`, and of jobs in
    `solvers.joint.lists.jobs_kernel`."""

    message_bytes: Floats
    """[messages] B of one transfer"""
    message_tensors: Floats
    """[messages] latencies of one transfer; 0 for an order constraint, which has nothing to move"""
    message_stated_s: Floats
    """[messages] s that the workload states for one transfer"""
    latency_s: Floats
    """[devices, devices] s, inf without a link"""
    per_byte_s: Floats
    """[devices, devices] s/B, inf without a link"""
    leave: Ints
    """[devices] the resource that sending occupies, or NONE"""
    arrive: Ints
    """[devices, devices] the resource that a transfer (its receiving half, if ``leave``) occupies, or NONE"""
    one_by_one: Bools
    """[devices] whether it runs one operator at a time"""
    resources: np.int64
    """how many there are, devices first"""


class Held(NamedTuple):
    """What operators and their messages hold."""

    memory_bytes: Floats
    """[devices] B"""
    static_bytes: Floats
    """[operators] B held all the time"""
    saved_bytes: Floats
    """[operators] B held for the backward"""
    working_bytes: Floats
    """[operators] B of workspace"""
    tensor_bytes: Floats
    """[messages] B while it lies on the device that made it"""
    home: Ints
    """[operators] the forward operator of a mirror, else itself"""
    phase: Ints
    """[operators]"""
    counts_buffers: np.bool_
    """whether transfers and what they hold count"""


class PassArrays(NamedTuple):
    """What does not hang on the placement. A row of a list is ``x[x_start[i] : x_start[i + 1]]``."""

    seconds: Floats
    """[operators, devices] s"""
    group_of: Ints
    """[operators] the group that shares a device"""
    waits: Ints
    """[operators] producers of the messages that each reads, plus one for a mirror"""
    made_start: Ints
    made: Ints
    """messages that each operator makes"""
    mirror_start: Ints
    mirror: Ints
    """mirrors of each operator"""
    producer_start: Ints
    producer: Ints
    """operators that make each message"""
    reader_start: Ints
    reader: Ints
    """operators that read each message"""
    wiring: Wiring
    """of its messages and of the cluster"""
    held: Held
    """what operators hold"""


class PassState(NamedTuple):
    """Working arrays of one simulation, and its outcome; tasks are operators first, then transfers."""

    device: Ints
    """[tasks] that runs it; of a transfer, the sender"""
    start_s: Floats
    """[tasks] s"""
    end_s: Floats
    """[tasks] s; how long it takes, until it starts"""
    message: Ints
    """[tasks] of a transfer; NONE for operators"""
    target: Ints
    """[tasks] the receiver; the sender itself for a sending half; NONE for operators"""
    sequence: Ints
    """[operators] when it was begun, as a count"""
    counts: Ints
    """[6] at TASKS to DONE"""
    priority: Floats
    """[tasks] the least goes first"""
    code: Ints
    """[tasks] of equally urgent ones the least goes first"""
    resource: Ints
    """[tasks] or NONE"""
    waiting: Ints
    """[operators] for how many"""
    missing: Ints
    """[messages x devices] makers there that have yet to end, of messages with several"""
    waits_for: Ints
    """[resources] how many tasks are ready for it"""
    is_busy: Bools
    """[resources]"""
    keys: Floats
    """[resources x tasks] queues of ready tasks: their priorities"""
    queued: Ints
    """[resources x tasks] and their numbers"""
    events: Ints
    """[tasks] those that run, as a queue by their end"""
    until: Floats
    """[tasks] s, their ends"""
    ready: Ints
    """[tasks] that became ready at this instant"""
    dirty: Ints
    """[resources] those to look at, of which is_dirty says that they are in it"""
    is_dirty: Bools
    """[resources]"""
    half: Ints
    """[tasks] chain of the arrivals that wait for one departure"""
    towards: Ints
    """[devices] where a message goes"""
    urgent: Floats
    """[devices] the priority of its most urgent reader there"""
    load_s: Floats
    """[resources] s of operators that have yet to start"""


def state_for(arrays: PassArrays) -> PassState:
    """Fresh working arrays; one set serves any number of simulations, one after the other."""
    operators, devices = arrays.seconds.shape
    makers, readers = np.diff(arrays.producer_start), np.diff(arrays.reader_start)
    most = int((makers * (1 + np.minimum(readers, devices - 1))).sum()) if devices > 1 else 0
    tasks, messages, resources = operators + most, len(makers), int(arrays.wiring.resources)

    def ints(size: int) -> Ints:
        return np.zeros(size, np.int64)

    return PassState(
        device=ints(tasks), start_s=np.zeros(tasks), end_s=np.zeros(tasks), message=np.full(tasks, NONE, np.int64),
        target=np.full(tasks, NONE, np.int64), sequence=ints(operators), counts=ints(6), priority=np.zeros(tasks),
        code=ints(tasks), resource=ints(tasks), waiting=ints(operators), missing=ints(messages * devices),
        waits_for=ints(resources), is_busy=np.zeros(resources, np.bool_), keys=np.empty(resources * tasks),
        queued=np.empty(resources * tasks, np.int64), events=ints(tasks),
        until=np.empty(tasks), ready=ints(tasks), dirty=ints(resources), is_dirty=np.zeros(resources, np.bool_),
        half=ints(tasks), towards=ints(devices), urgent=np.zeros(devices), load_s=np.zeros(resources),
    )  # fmt: skip


@inlined
def transfer_s(w: Wiring, m: int, src: int, dst: int) -> float:
    """Seconds of one transfer of message ``m`` between two devices; inf without a link."""
    seconds = 0.0
    if w.message_tensors[m] != 0:
        seconds = w.message_tensors[m] * w.latency_s[src, dst] + w.message_bytes[m] * w.per_byte_s[src, dst]
        seconds += w.message_stated_s[m]
    return seconds
