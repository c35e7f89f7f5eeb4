"""What list schedulers read of a pass, and when a tensor reaches a device, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.kernels.arrays import Bools, Floats, Ints

NONE = -1
CHANNEL, LINKS, FREE = 0, 1, 2
"""What carries transfers while planning: one channel per device, the resources of the problem, or anything."""


class JobArrays(NamedTuple):
    """Jobs are operators, or several contracted into one, numbered in a topological order.

    CSR rows are ``x[x_start[i] : x_start[i + 1]]``. seconds: [jobs, devices], inf where one cannot run. unit_of:
    which jobs share a device, [jobs]. allowed: [units, devices]. unit_bytes: what a unit holds, [units]. waits:
    how many jobs a job waits for; before: these. after: the jobs that wait for it; after_s: mean seconds to move
    what they read of it to another device. read: the messages that a job reads that take time. producer: the
    jobs that make a message. message_tensors, message_bytes, message_stated_s, latency_s, per_byte_s, leave,
    arrive, one_by_one, resources: as in `solvers.joint.passes.pass_kernel.PassArrays`.
    """

    seconds: Floats
    unit_of: Ints
    allowed: Bools
    unit_bytes: Floats
    waits: Ints
    before_start: Ints
    before: Ints
    after_start: Ints
    after: Ints
    after_s: Floats
    read_start: Ints
    read: Ints
    producer_start: Ints
    producer: Ints
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
