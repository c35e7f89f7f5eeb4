"""What all list schedulers of one pass of operators share: what they can represent, and how plans are offered."""

from __future__ import annotations

import math
from collections.abc import Iterable

from solvers.joint.plans import plan_of
from solvers.joint.simulator import Simulator
from solvers.list_scheduling.within_memory import Scheduler, Timed, within_memory
from solvers.monitor import Monitor
from solvers.problem import Contiguity, Execution, Objective, Problem


def unsupported(problem: Problem) -> str | None:
    """What no list scheduler of single operators can represent, or None."""
    if problem.objective is not Objective.MAKESPAN or problem.execution is not Execution.OPERATOR:
        return "it schedules one pass of single operators (objective makespan, execution operator)"
    if problem.contiguity is not Contiguity.NONE:
        return "it places single operators anywhere; contiguity must be none"
    return None


def offer_scheduled(
    monitor: Monitor, simulator: Simulator, schedulers: Iterable[Scheduler], *, own_order: bool, best_order: bool = True
) -> bool:
    """Offer what the first of these schedulers finds that fits; whether one did.

    own_order: in the scheduler's own order per device. best_order: and list-scheduled by the longest path to
    the end of its placement, which is often faster: the judge keeps the better. Where a peak does not
    fit, the scheduler is asked again with less memory (`within_memory`).
    """
    for scheduler in schedulers:
        for attempt in within_memory(simulator, scheduler, own_order=own_order, by_rank=best_order):
            monitor.check()
            if _offer(monitor, simulator, attempt):
                return True
    return False


def _offer(monitor: Monitor, simulator: Simulator, attempt: list[Timed]) -> bool:
    offered = False
    for timed in attempt:
        if not timed.fits:
            continue
        monitor.check()
        model = simulator.model
        sequences = timed.sequences
        if sequences is None:
            simulator.by_rank_s(timed.place, timed.rank)
            sequences = simulator.sequences()
        offered |= monitor.offer(plan_of(model, timed.place, sequences)) < math.inf
    return offered
