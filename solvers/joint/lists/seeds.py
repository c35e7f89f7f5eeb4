"""Placements and priorities for a search to start from: what quick list schedulers say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from solvers.joint.lists.grouping import co_placed, heavy, in_touch, singletons
from solvers.joint.lists.jobs import jobs_of
from solvers.joint.lists.layers import ROUNDING, layer_split, module_order, split_by_modules
from solvers.joint.lists.schedulers import earliest_first, heft, m_topo
from solvers.joint.lists.within_memory import Scheduler, Timed, timed_in, within_memory
from solvers.joint.passes.model import PassModel
from solvers.joint.passes.simulator import Simulator
from solvers.kernels.arrays import Floats

PARTS_PER_DEVICE = 8
"""Units of heavy groups per device: coarse enough to keep neighbours together, fine enough to balance."""


def seeds(model: PassModel, check: Callable[[], None]) -> Iterator[tuple[str, Timed]]:
    """A placement with its order from each quick planner, and what that is called.

    Single devices; splits of layers, in topological order and module by module, by work and with transfers;
    m-TOPO; m-ETF and HEFT on single operators, on co-placed and contracted ones, and on heavy groups. Of each
    the first whose simulated pass fits (see `within_memory`); if none does, the last one, for a search to
    repair. The order is the list schedule by the longest path to the end of the placement, or, marked "own
    order", the scheduler's own, where that is faster.
    Yields none that need a link that is not there; if nothing else is left, splits of what exchanges nothing,
    and those that disregard memory, or links.
    Raises what ``check`` raises.
    """
    simulator = Simulator(model)
    none = True
    for name, scheduler in _schedulers(model, check):
        best = within_memory(simulator, scheduler, "rank", check)
        own = within_memory(simulator, scheduler, "own", check)
        if own is not None and (best is None or (not own.fits, own.makespan_s) < (not best.fits, best.makespan_s)):
            best, name = own, f"{name}, own order"
        if best is not None:
            none = False
            yield name, best
    if none:
        beyond = np.full(model.devices, np.inf)
        for name, unit_of, caps in (
            ("split of what needs no link", in_touch(model), model.memory_bytes),
            ("split of what needs no link, beyond memory", in_touch(model), beyond),
            ("layer split beyond memory", singletons(model), beyond),
        ):
            layers = [np.flatnonzero((unit_of == unit)[model.group_of]).tolist() for unit in range(unit_of.max() + 1)]
            parts = layer_split(model, layers, caps, range(model.devices), transfers=False)
            timed = None if parts is None else timed_in(simulator, parts[unit_of], "rank")
            if timed is not None:
                yield name, timed


def _schedulers(model: PassModel, check: Callable[[], None]) -> Iterator[tuple[str, Scheduler]]:
    caps = model.memory_bytes
    for device in _single_devices(model, caps):
        place = np.full(len(model.groups), device)
        yield "single device", lambda _, place=place: place  # type: ignore[misc]
    spread = model.problem.cluster.accelerators or tuple(range(model.devices))
    yield "layer split", lambda caps: layer_split(model, model.groups, caps, spread, transfers=False)
    yield "layer split with transfers", lambda caps: layer_split(model, model.groups, caps, spread, transfers=True)
    by_module = partial(split_by_modules, model, module_order(model), devices=spread)
    yield "layer split by modules", partial(by_module, transfers=False)
    yield "layer split by modules with transfers", partial(by_module, transfers=True)
    units = {
        "": singletons(model),
        " of co-placed operators": co_placed(model, caps),
        " of heavy groups": heavy(model, caps, PARTS_PER_DEVICE * model.devices),
    }
    for which, unit_of in units.items():
        check()
        jobs = jobs_of(model, unit_of, contract=bool(which))
        yield f"m-topo{which}", partial(m_topo, jobs)
        yield f"m-etf{which}", partial(earliest_first, jobs, channel="link", check=check)
        yield f"heft{which}", partial(heft, jobs, channel="link", check=check)


def _single_devices(model: PassModel, caps: Floats) -> Iterator[int]:
    """Devices that may hold everything, one of each that are alike."""
    held = float(model.held_bytes.sum())
    known: set[tuple[float, bytes]] = set()
    for device in range(model.devices):
        alike = float(caps[device]), model.seconds[:, device].tobytes()
        if model.allowed[:, device].all() and held <= caps[device] * (1 + ROUNDING) and alike not in known:
            known.add(alike)
            yield device
