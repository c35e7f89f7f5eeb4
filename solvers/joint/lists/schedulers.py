"""List schedulers: m-TOPO, m-ETF and m-SCT (Baechi), and HEFT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from solvers.joint.lists.draft_kernel import COUNT, Rule, draft_of
from solvers.joint.lists.earliest_first_kernel import GOING, STUCK, schedule, waiting_of
from solvers.joint.lists.heft_kernel import schedule_ranked, upward_s
from solvers.joint.lists.jobs import Jobs
from solvers.joint.lists.jobs_kernel import CHANNEL, FREE, LINKS, NONE
from solvers.kernels.arrays import Floats, Ints

Channel = Literal["device", "link", "free"]
CHANNELS: dict[str, int] = {"device": CHANNEL, "link": LINKS, "free": FREE}
"""What transfers wait for while planning: their device's one channel, the problem's own links or lanes, nothing."""
LOOKS = 200_000
"""Looks at a job on a device in one call of a kernel: some hundredths of a second."""
AT_ONCE = 200
"""Jobs scheduled in one call of the kernel."""


@dataclass(frozen=True, eq=False)
class Scheduled:
    """A list scheduler's own answer. place: the device of every group, [groups]. sequences: the operators of
    every device, in its order."""

    place: Ints
    sequences: list[list[int]]


def m_topo(jobs: Jobs, caps: Floats) -> Scheduled | None:
    """Jeon et al., SoCC 2020, section 3; None where a unit fits nowhere.

    Each device is filled up to its share of all bytes plus the largest unit's, or to its cap if that is less
    (bytes, [devices]); then the next. Ours: a unit that may not run on the device being filled goes to the
    next that takes it, and what is left when the last is full to any that still has room.
    """
    a = jobs.arrays
    level = np.minimum(caps, a.unit_bytes.sum() / len(caps) + a.unit_bytes.max())
    device = np.full(len(a.allowed), -1)
    held = np.zeros(len(caps))
    filling = 0
    for unit in dict.fromkeys(a.unit_of.tolist()):
        nbytes = a.unit_bytes[unit]
        able = a.allowed[unit]
        while filling < len(caps) - 1 and able[filling] and held[filling] + nbytes > level[filling]:
            filling += 1
        takes = able & (held + nbytes <= level)
        takes[:filling] = False
        if not takes.any():
            takes = able & (held + nbytes <= caps)
        if not takes.any():
            return None
        device[unit] = int(np.argmax(takes))
        held[device[unit]] += nbytes
    return _scheduled(jobs, device, np.arange(len(jobs)))


def earliest_first(
    jobs: Jobs, caps: Floats, channel: Channel, check: Callable[[], None], favourite: Ints | None = None
) -> Scheduled | None:
    """Schedule the job and device with the earliest start, again and again; None where jobs no longer fit.

    Jeon et al., SoCC 2020, section 3: of equal starts the first in topological order goes first; the
    first job of a unit takes the unit to its device; a device is left out if the unit does not fit into ``caps``
    (bytes, [devices]). favourite: for m-SCT, the favourite child of every job or NONE, [jobs]. channel: see
    CHANNELS. Raises what ``check`` raises.
    """
    state, waiting = draft_of(jobs.arrays), waiting_of(jobs.arrays)
    rule = Rule(CHANNELS[channel], False)
    children = np.full(len(jobs), NONE) if favourite is None else favourite
    outcome = GOING
    while outcome == GOING:
        check()
        outcome = schedule(jobs.arrays, state, waiting, caps, children, rule, LOOKS)
    if outcome == STUCK:
        return None
    return _scheduled(jobs, state.unit_device, np.lexsort((state.turn, state.start_s)))


def heft(jobs: Jobs, caps: Floats, channel: Channel, check: Callable[[], None]) -> Scheduled | None:
    """Topcuoglu et al. 2002, section 4, with units that share a device and memory; None where a job fits nowhere.

    The first job of a unit takes it to its device; a device is left out if the unit does not fit into ``caps``
    (bytes, [devices]). channel: what transfers wait for, see CHANNELS; in the paper for nothing ("free").
    Raises what ``check`` raises.
    """
    rank = np.zeros(len(jobs))
    upward_s(jobs.arrays, rank)
    order = np.lexsort((np.arange(len(jobs)), -rank))
    state, rule = draft_of(jobs.arrays), Rule(CHANNELS[channel], True)
    while state.counts[COUNT] < len(jobs):
        check()
        if not schedule_ranked(jobs.arrays, state, caps, order, rule, AT_ONCE):
            return None
    return _scheduled(jobs, state.unit_device, np.lexsort((state.turn, state.start_s)))


def _scheduled(jobs: Jobs, unit_place: Ints, order: Ints) -> Scheduled:
    """The answer with every unit on this device and the jobs begun in this order."""
    clusters = jobs.clusters
    return Scheduled(clusters.place_of_groups(unit_place), clusters.sequences(unit_place, order.tolist()))
