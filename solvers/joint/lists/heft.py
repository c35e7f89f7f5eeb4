"""HEFT: by falling upward rank, each job where it ends first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solvers.joint.lists.earliest_first import CHANNELS, Channel, Scheduled
from solvers.joint.lists.heft_kernel import COUNT, heft_state, schedule_ranked, upward_s
from solvers.joint.lists.jobs import Jobs
from solvers.kernels.arrays import Floats

AT_ONCE = 200
"""Jobs scheduled in one call of the kernel."""


def heft(jobs: Jobs, caps: Floats, channel: Channel, check: Callable[[], None]) -> Scheduled | None:
    """Topcuoglu et al. 2002, section 4, with units that share a device and memory; None where a job fits nowhere.

    The first job of a unit takes it to its device; a device is left out if the unit does not fit into ``caps``
    (bytes, [devices]). channel: what transfers wait for, see CHANNELS; in the paper for nothing ("free").
    Raises what ``check`` raises.
    """
    rank = np.zeros(len(jobs))
    upward_s(jobs.arrays, rank)
    order = np.lexsort((np.arange(len(jobs)), -rank))
    state = heft_state(jobs.arrays)
    while state.counts[COUNT] < len(jobs):
        check()
        if not schedule_ranked(jobs.arrays, state, caps, order, CHANNELS[channel], AT_ONCE):
            return None
    turn = np.empty(len(jobs), np.int64)
    turn[order] = np.arange(len(jobs))
    return Scheduled(jobs.place(state.unit_device), jobs.sequences(state.device, state.start_s, turn))
