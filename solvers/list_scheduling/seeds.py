"""Placements and priorities for a search to start from: what quick list schedulers say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from solvers.joint.model import PassModel
from solvers.joint.simulator import Simulator
from solvers.list_scheduling.earliest_first import Scheduled, earliest_first
from solvers.list_scheduling.grouping import apart, co_placed, heavy
from solvers.list_scheduling.heft import heft
from solvers.list_scheduling.jobs import held_bytes, jobs_of
from solvers.list_scheduling.layers import ROUNDING, layer_split
from solvers.list_scheduling.topological import m_topo

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

Seed = tuple[str, Ints, Floats]

SHARES = (1.0, 0.9, 0.8, 0.65, 0.5)
"""Shares of the caps to plan for, in turn, until the simulated pass fits: peaks hold more than what is planned
with (buffers, gradients of activations, workspace)."""
PARTS_PER_DEVICE = 8
"""Units of heavy groups per device: coarse enough to keep neighbours together, fine enough to balance."""


def seeds(model: PassModel, check: Callable[[], None]) -> Iterator[Seed]:
    """(name, device of every group, rank of every operator) of each quick planner, the lowest rank first.

    Single devices; splits of layers, by work and with transfers; m-TOPO; m-ETF and HEFT on single operators,
    on co-placed and contracted ones, and on heavy groups. Of each the first whose simulated pass fits, of shares of
    the caps in turn; if none does, the last one, for a search to repair. The rank is by the longest path to
    the end of the placement, or, marked "own order", the scheduler's own order, where that is faster.
    Yields none that need a link that is not there; if nothing else is left, a split that disregards memory.
    Raises what ``check`` raises.
    """
    simulator = Simulator(model)
    caps = model.arrays.memory_bytes
    none = True
    for name, attempts in _attempts(model, caps, check):
        last: Seed | None = None
        for attempt in attempts:
            check()
            found = attempt()
            if found is None:
                continue
            seed = _ranked(simulator, name, found)
            if seed is None:
                continue
            last = seed
            if simulator.fits():
                break
        if last is not None:
            none = False
            yield last
    if none:
        everywhere = np.full(model.devices, np.inf)
        place = layer_split(model, everywhere, range(model.devices), transfers=False)
        seed = None if place is None else _ranked(simulator, "layer split beyond memory", place)
        if seed is not None:
            yield seed


def _ranked(simulator: Simulator, name: str, found: Scheduled | Ints) -> Seed | None:
    """The better of both orders, simulated last; None if it cannot run."""
    place = found.place if isinstance(found, Scheduled) else found
    rank = simulator.placed_rank(place)
    by_rank_s = simulator.by_rank_s(place, rank)
    if isinstance(found, Scheduled):
        own = np.zeros(simulator.model.operators)
        for sequence in found.sequences:
            own[sequence] = np.arange(len(sequence))
        if simulator.by_rank_s(place, own) < by_rank_s:
            return f"{name}, own order", place, own
        by_rank_s = simulator.by_rank_s(place, rank)
    return (name, place, rank) if by_rank_s < np.inf else None


Attempt = Callable[[], "Scheduled | Ints | None"]


def _attempts(model: PassModel, caps: Floats, check: Callable[[], None]) -> Iterator[tuple[str, Sequence[Attempt]]]:
    """Every seed's name and the tries to make it."""
    for device in _single_devices(model, caps):
        yield "single device", [partial(np.full, len(model.groups), device)]
    spread = model.problem.cluster.accelerators or tuple(range(model.devices))
    for transfers, name in ((False, "layer split"), (True, "layer split with transfers")):
        yield name, [partial(layer_split, model, caps * s, spread, transfers=transfers) for s in SHARES]
    units = {
        "": apart(model),
        " of co-placed operators": co_placed(model, caps),
        " of heavy groups": heavy(model, caps, PARTS_PER_DEVICE * model.devices),
    }
    for which, unit_of in units.items():
        check()
        jobs = jobs_of(model, unit_of, contract=bool(which))
        yield f"m-topo{which}", [partial(m_topo, jobs, caps * share) for share in SHARES]
        yield f"m-etf{which}", [partial(earliest_first, jobs, caps * share, "link", check) for share in SHARES]
        yield f"heft{which}", [partial(heft, jobs, caps * share, "link", check) for share in SHARES]


def _single_devices(model: PassModel, caps: Floats) -> Iterator[int]:
    """Devices that may hold everything, one of each that are alike."""
    held = float(held_bytes(model).sum())
    known: set[tuple[float, bytes]] = set()
    for device in range(model.devices):
        alike = float(caps[device]), model.seconds[:, device].tobytes()
        if model.allowed[:, device].all() and held <= caps[device] * (1 + ROUNDING) and alike not in known:
            known.add(alike)
            yield device
