"""What list schedulers read of a pass, on plain arrays."""

from __future__ import annotations

from typing import NamedTuple

from solvers.joint.passes.arrays_kernel import Wiring
from solvers.kernels.arrays import Bools, Floats, Ints

NONE = -1
CHANNEL, LINKS, FREE = 0, 1, 2
"""What carries transfers while planning: one channel per device, the resources of the problem, or anything."""


class JobArrays(NamedTuple):
    """Jobs are operators, or several contracted into one, numbered in a topological order.

    Rows are ``x[x_start[i] : x_start[i + 1]]``.
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
    wiring: Wiring  # of the messages and the cluster
