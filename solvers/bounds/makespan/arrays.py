"""The arrays of one unsplit pass that kernels share, one field a line: operators are numbered topologically."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.kernels.arrays import Floats, Ints

Flags = NDArray[np.uint8]

DEVICE, NOTHING = 2, -1
"""What carries messages: the anchor's device itself; no single resource."""


class Arcs(NamedTuple):
    """Arcs by target (in) and by source (out): those into v are ``in_start[v]:in_start[v + 1]``.

    A delay is the seconds that the target waits at least when its source is on another device; inf where no two
    devices that may hold the ends are linked.
    """

    in_start: Ints  # [operators + 1]
    in_from: Ints  # [arcs], sources
    in_delay: Floats  # [arcs], s
    out_start: Ints  # [operators + 1]
    out_to: Ints  # [arcs], targets
    out_delay: Floats  # [arcs], s


class Channels(NamedTuple):
    """Messages, and what carries those that leave the anchor's device or reach it.

    Producers and readers of message m are ``producer[producer_start[m]:producer_start[m + 1]]`` and so on, without
    operators that may be copied.
    """

    producer_start: Ints  # [messages + 1]
    producer: Ints
    reader_start: Ints  # [messages + 1]
    reader: Ints
    seconds: Floats  # [messages], s, the least that one transfer takes
    leaving: int  # 0 or 1, a link or lane (the same one if both are equal); DEVICE; NOTHING
    reaching: int


class PassArrays(NamedTuple):
    """A pass. In the reversed one operator i is number ``operators - 1 - i``."""

    seconds: Floats  # [operators], s, on the fastest device that may run each
    forth: Arcs
    back: Arcs  # of the reversed pass
    channels: Channels


class Clusters(NamedTuple):
    """Operators that must share a device, and clusters that never do. Names of clusters no longer used are copyable."""

    of: Ints  # [operators], the cluster of each
    copyable: Flags  # [clusters], 1 where operators may be on several devices
    separate: Flags  # [clusters, clusters], 1 for two that never share a device
    held: Floats  # [clusters], bytes
