"""How list schedulers of one pass of operators offer their plans."""

from __future__ import annotations

import math
from collections.abc import Iterable

from solvers.joint.lists.within_memory import Order, Scheduler, within_memory
from solvers.joint.passes.plans import plan_of
from solvers.joint.passes.simulator import Simulator
from solvers.search.monitor import Monitor


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
