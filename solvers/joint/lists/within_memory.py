"""Have a scheduler plan with less and less memory until what it plans fits when simulated, and offer it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from solvers.joint.lists.schedulers import Scheduled
from solvers.joint.passes.plans import plan_of
from solvers.joint.passes.simulator import Simulator
from solvers.kernels.arrays import Floats, Ints
from solvers.search.monitor import Monitor

TRIES = 12
"""How often a scheduler is asked again with less memory, or with more where it found no room."""

Order = Literal["own", "rank"]
"""The scheduler's own order per device, or the list schedule by the longest path to the end of the placement."""

Scheduler = Callable[[Floats], "Scheduled | Ints | None"]
"""From bytes that each device may hold, [devices], to a placement of groups with or without its own order."""


@dataclass(frozen=True, eq=False)
class Timed:
    """A placement, simulated in one order.

    place: the device of every group, [groups]. rank: of every operator, the lowest first. sequences: operators
    per device as simulated. makespan_s: of that. excess_bytes: by how much the peak exceeds the memory of every
    device, [devices].
    """

    place: Ints
    rank: Floats
    sequences: list[list[int]]
    makespan_s: float
    excess_bytes: Floats

    @property
    def fits(self) -> bool:
        return not self.excess_bytes.any()


def within_memory(
    simulator: Simulator, scheduler: Scheduler, order: Order, check: Callable[[], None], tries: int = TRIES
) -> Timed | None:
    """The first of what a scheduler finds that fits when simulated in this order, else the last; None without any.

    It plans with what operators keep all the time (`held_bytes`); buffers, gradients of activations and
    workspace come on top. So where a peak exceeds a device's memory, it is asked again with that much
    less; where it finds no place then, with half the reduction. Raises what ``check`` raises.
    """
    model = simulator.model
    held = model.held_bytes
    caps = model.memory_bytes.copy()
    wide: Floats | None = None
    last: Timed | None = None
    for _ in range(tries):
        check()
        scheduled = scheduler(caps)
        if scheduled is None:
            if wide is None:
                return None
            caps = (wide + caps) / 2
            continue
        timed = timed_in(simulator, scheduled, order)
        if timed is None:  # no link
            return last
        last = timed
        if timed.fits:
            break
        planned = np.zeros(model.devices)
        np.add.at(planned, timed.place, held)
        wide = np.where(timed.excess_bytes > 0, np.minimum(caps, planned), caps)
        caps = np.maximum(wide - timed.excess_bytes, 0.0)
    return last


def timed_in(simulator: Simulator, scheduled: Scheduled | Ints, order: Order) -> Timed | None:
    """What a scheduler found, simulated in an order; None where a link is missing."""
    if isinstance(scheduled, Scheduled) and order == "own":
        place, sequences = scheduled.place, scheduled.sequences
        rank = np.zeros(simulator.model.operators)
        for sequence in sequences:
            rank[sequence] = np.arange(len(sequence))
    else:
        place = scheduled.place if isinstance(scheduled, Scheduled) else scheduled
        rank = simulator.placed_rank(place)
        if not simulator.by_rank_s(place, rank) < np.inf:
            return None
        sequences = simulator.sequences()
    # A plan says no more than orders: where transfers share a wire, they may go otherwise than by rank.
    seconds = simulator.in_order_s(place, sequences)
    return Timed(place, rank, sequences, seconds, _excess(simulator)) if seconds < np.inf else None


def _excess(simulator: Simulator) -> Floats:
    """By how much the last simulation exceeds the memory of every device, rounding aside, [devices]."""
    memory = simulator.model.memory_bytes
    if simulator.fits():
        return np.zeros(len(memory))
    peak = simulator.peak_bytes()
    excess: Floats = np.where(peak > memory * (1 + 1e-9), peak - memory, 0.0)
    return excess


def offer_scheduled(
    monitor: Monitor, simulator: Simulator, schedulers: Iterable[Scheduler], *, own_order: bool = False
) -> None:
    """Offer what each of these schedulers plans, until something fits, in both orders.

    "own" is the scheduler's own order per device, "rank" the list schedule by the longest path to the end of its
    placement, which is often faster: the judge keeps the better. Where a peak does not fit, the
    scheduler plans again with less memory, for each order by itself (`within_memory`). own_order: that one alone.
    """
    orders: tuple[Order, ...] = ("own",) if own_order else ("own", "rank")
    for scheduler in schedulers:
        offered = math.inf
        for order in orders:
            timed = within_memory(simulator, scheduler, order, monitor.check)
            if timed is not None and timed.fits:
                monitor.check()
                offered = min(offered, monitor.offer(plan_of(simulator.model, timed.place, timed.sequences)))
        if offered < math.inf:
            return
