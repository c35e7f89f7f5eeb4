"""Plans whose stages keep what they save in their hosts' memory where a device has no room for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from solvers.bounds.combinatorial import lower_bound_s, proved_infeasible
from solvers.errors import PlacementError
from solvers.evaluation.evaluate import IN_PARTS, MEMORY_SLACK
from solvers.evaluation.simulation import run
from solvers.evaluation.unit_bytes import saved_bytes
from solvers.plan.plan import Plan
from solvers.problem.cluster import Cluster
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor, Stop

ROOM = (1.0, 1.5, 3.0, math.inf)
"""Times the accelerators' memory for which plans are sought; what is too much for it is offloaded."""


def search_with_host(problem: Problem, monitor: Monitor, search: Callable[[Problem, Monitor], object]) -> None:
    """Offer plans of the question without offloading, then those for more memory than there is, fitted to it.

    search: offers plans of a question. No plan is faster than the bound for endless memory. Raises Stop.
    """
    if impossible := proved_infeasible(problem):
        monitor.prove_infeasible(impossible)
        return
    plain = replace(problem, host_links={})
    monitor.raise_bound(lower_bound_s(_roomier(plain, math.inf)))
    for number, factor in enumerate(ROOM):
        if monitor.is_proved():
            return
        question = plain if factor == 1 else _roomier(plain, factor)
        inner = monitor.asking(question, lambda plan: fitted(problem, plan))
        inner.time_limit_s = monitor.remaining_s / min(2, len(ROOM) - number)
        with suppress(Stop):
            search(question, inner)
        monitor.check()
        if inner.judged is not None:
            for other in inner.front.beside(inner.objective_s, inner.judged.peak_bytes):
                monitor.offer(fitted(problem, other.plan))


def fitted(problem: Problem, plan: Plan) -> Plan:
    """The plan, in which stages of devices that hold too much offload what they save: on each those first that save
    the most, until it fits or there is none left."""
    apart = {action.stage for row in plan.order for action in row if action.kind in IN_PARTS}
    most = {
        index: saved_bytes(problem, stage.operators, stage.micro_batch_size / len(stage.devices))
        for index, stage in enumerate(plan.stages)
        if index not in apart and not stage.recompute and not problem.no_offload(stage.devices)
    }
    caps = [device.memory_bytes * (1 + MEMORY_SLACK) for device in problem.cluster.devices]
    while True:
        try:
            peaks = run(problem, plan).peak_bytes().tolist()
        except PlacementError:
            return plan
        chosen = set()
        for device in (d for d, (peak, cap) in enumerate(zip(peaks, caps, strict=True)) if peak > cap):
            here = [i for i in most if device in plan.stages[i].devices and not plan.stages[i].offload]
            chosen |= {max(here, key=most.__getitem__)} if here else set()
        if not chosen:
            return plan
        stages = tuple(replace(stage, offload=stage.offload or i in chosen) for i, stage in enumerate(plan.stages))
        plan = replace(plan, stages=stages)


def _roomier(problem: Problem, factor: float) -> Problem:
    """The question on accelerators with so many times their memory."""
    devices = tuple(
        device if device.is_cpu else replace(device, memory_bytes=device.memory_bytes * factor)
        for device in problem.cluster.devices
    )
    return replace(problem, cluster=Cluster(devices, problem.cluster.links))
