"""m-ETF and m-SCT: the earliest task first, with memory and favourite children."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from solvers.joint.lists.earliest_first_kernel import GOING, STUCK, etf_state, schedule
from solvers.joint.lists.jobs import Jobs
from solvers.joint.lists.jobs_kernel import CHANNEL, FREE, LINKS, NONE
from solvers.kernels.arrays import Floats, Ints

Channel = Literal["device", "link", "free"]
CHANNELS: dict[str, int] = {"device": CHANNEL, "link": LINKS, "free": FREE}
"""What transfers wait for while planning: their device's one channel, the problem's own links or lanes, nothing."""
LOOKS = 200_000
"""Looks at a job on a device in one call of a kernel: some hundredths of a second."""


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A list scheduler's own answer. place: the device of every group, [groups]. sequences: the operators of
    every device, in its order."""

    place: Ints
    sequences: list[list[int]]


def earliest_first(
    jobs: Jobs, caps: Floats, channel: Channel, check: Callable[[], None], favourite: Ints | None = None
) -> Scheduled | None:
    """Schedule the job and device with the earliest start, again and again; None where jobs no longer fit.

    Jeon et al., SoCC 2020, section 3: of equal starts the first in topological order goes first; the
    first job of a unit takes the unit to its device; a device is left out if the unit does not fit into ``caps``
    (bytes, [devices]). favourite: for m-SCT, the favourite child of every job or NONE, [jobs]. channel: see
    CHANNELS. Raises what ``check`` raises.
    """
    state = etf_state(jobs.arrays)
    children = np.full(len(jobs), NONE) if favourite is None else favourite
    outcome = GOING
    while outcome == GOING:
        check()
        outcome = schedule(jobs.arrays, state, caps, children, CHANNELS[channel], LOOKS)
    if outcome == STUCK:
        return None
    return Scheduled(jobs.place(state.unit_device), jobs.sequences(state.device, state.start_s, state.turn))
