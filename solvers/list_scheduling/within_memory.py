"""Have a scheduler plan with less and less memory until what it plans fits when simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solvers.joint.simulator import Simulator
from solvers.list_scheduling.earliest_first import Scheduled
from solvers.list_scheduling.jobs import held_bytes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TRIES = 12
"""How often a scheduler is asked again with less memory, or with more where it found no room."""

Scheduler = Callable[[Floats], "Scheduled | Ints | None"]
"""From bytes that each device may hold, [devices], to a placement of groups with or without its own order."""


@dataclass(frozen=True, eq=False)
class Timed:
    """A placement, simulated in one order.

    place: the device of every group, [groups]. rank: of every operator, the lowest first; or sequences: the
    scheduler's own order, operators per device. makespan_s: as simulated. excess_bytes: by how much the peak
    exceeds the memory of every device, [devices].
    """

    place: Ints
    rank: Floats
    sequences: list[list[int]] | None
    makespan_s: float
    excess_bytes: Floats

    @property
    def fits(self) -> bool:
        return not self.excess_bytes.any()


def within_memory(
    simulator: Simulator, scheduler: Scheduler, *, own_order: bool, by_rank: bool = True, tries: int = TRIES
) -> Iterator[list[Timed]]:
    """What a scheduler finds, simulated, the fastest that fits first; the last is the first with one that fits.

    It plans with what operators keep all the time (`held_bytes`); buffers, gradients of activations and
    workspace come on top. So where a peak exceeds a device's memory, it is asked again with that much
    less; where it finds no place then, with half the reduction. Orders are the scheduler's own, if it has one
    (``own_order``), and by the longest path to the end (``by_rank``).
    """
    model = simulator.model
    held = held_bytes(model)
    caps = model.arrays.memory_bytes.copy()
    wide: Floats | None = None
    for _ in range(tries):
        found = scheduler(caps)
        if found is None:
            if wide is None:
                return
            caps = (wide + caps) / 2
            continue
        timed = _timed(simulator, found, own_order, by_rank)
        if timed:
            yield timed
            if timed[0].fits:
                return
        least = min((t.excess_bytes for t in timed), key=lambda excess: float(excess.sum()), default=None)
        if least is None:  # no link
            return
        planned = np.zeros(model.devices)
        np.add.at(planned, timed[0].place, held)
        wide = np.where(least > 0, np.minimum(caps, planned), caps)
        caps = np.maximum(wide - least, 0.0)


def _timed(simulator: Simulator, found: Scheduled | Ints, own_order: bool, by_rank: bool) -> list[Timed]:
    model = simulator.model
    place = found.place if isinstance(found, Scheduled) else found
    timed = []
    if own_order and isinstance(found, Scheduled):
        seconds = simulator.in_order_s(place, found.sequences)
        if seconds < np.inf:
            rank = np.zeros(model.operators)
            for sequence in found.sequences:
                rank[sequence] = np.arange(len(sequence))
            timed.append(Timed(place, rank, found.sequences, seconds, _excess(simulator)))
    if by_rank or not timed:
        rank = simulator.placed_rank(place)
        seconds = simulator.by_rank_s(place, rank)
        if seconds < np.inf:
            timed.append(Timed(place, rank, None, seconds, _excess(simulator)))
    return sorted(timed, key=lambda t: (not t.fits, t.makespan_s))


def _excess(simulator: Simulator) -> Floats:
    """By how much the last simulation exceeds the memory of every device, rounding aside, [devices]."""
    memory = simulator.model.arrays.memory_bytes
    if simulator.fits():
        return np.zeros(len(memory))
    peak = simulator.peak_bytes()
    excess: Floats = np.where(peak > memory * (1 + 1e-9), peak - memory, 0.0)
    return excess
