"""What list schedulers read of a pass, and when a tensor reaches a device, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.kernels.arrays import Bools, Floats, Ints
from solvers.kernels.lazy import njit

NONE = -1
CHANNEL, LINKS, FREE = 0, 1, 2
"""What carries transfers while planning: one channel per device, the resources of the problem, or anything."""


class JobArrays(NamedTuple):
    """Jobs are operators, or several contracted into one, numbered in a topological order.

    Rows are ``x[x_start[i] : x_start[i + 1]]``. The last nine are those of `solvers.joint.passes.arrays_kernel`.
    """

    seconds: Floats  # [jobs, devices], s, inf where one cannot run
    unit_of: Ints  # [jobs], which share a device
    allowed: Bools  # [units, devices]
    unit_bytes: Floats  # [units], bytes that a unit holds
    waits: Ints  # [jobs], how many jobs each waits for
    before_start: Ints  # [jobs + 1]
    before: Ints  # the jobs that each waits for
    after_start: Ints  # [jobs + 1]
    after: Ints  # the jobs that wait for each
    after_s: Floats  # s, mean, to move what these read of it to another device
    read_start: Ints  # [jobs + 1]
    read: Ints  # the messages that each reads that take time
    producer_start: Ints  # [messages + 1]
    producer: Ints  # the jobs that make each message
    message_tensors: Floats
    message_bytes: Floats
    message_stated_s: Floats
    latency_s: Floats
    per_byte_s: Floats
    leave: Ints
    arrive: Ints
    one_by_one: Bools
    resources: np.int64


@njit(cache=True)
def moving_s(a: JobArrays, message: int, src: int, dst: int) -> float:
    """Seconds of one transfer; inf without a link."""
    seconds: float = a.message_tensors[message] * a.latency_s[src, dst]
    seconds += a.message_bytes[message] * a.per_byte_s[src, dst]
    seconds += a.message_stated_s[message]
    return seconds


@njit(cache=True)
def source_of(producer: Ints, low: int, place: int, device: Ints, dst: int) -> int:
    """The device of ``producer[place]`` if it sends the message of ``producer[low:]`` to ``dst``, else NONE.

    It does not where it is not scheduled (the job itself) or on ``dst``, or where an earlier producer on its device
    sends for all of them. device: [jobs].
    """
    src: int = device[producer[place]]
    if src < 0 or src == dst:
        return NONE
    for f in range(low, place):
        if device[producer[f]] == src:
            return NONE
    return src


@njit(cache=True)
def made_s(producer: Ints, low: int, high: int, device: Ints, end_s: Floats, src: int) -> float:
    """When the last of ``producer[low:high]`` on device ``src`` ends. device, end_s: [jobs]."""
    made = 0.0
    for f in range(low, high):
        if device[producer[f]] == src:
            made = max(made, end_s[producer[f]])
    return made
