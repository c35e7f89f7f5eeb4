"""Plans whose stages keep what they save in their hosts' memory where a device has no room for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from solvers.bounds.combinatorial import lower_bound_s, proved_infeasible
from solvers.pipelines.recomputation.fitted import fitted
from solvers.plan.plan import Plan
from solvers.problem.cluster import Cluster
from solvers.problem.problem import Problem
from solvers.programs.optional import lacking
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
    rooms: tuple[float, ...] = ROOM
    if reason := lacking("highspy"):
        monitor.note(f"nothing was sent to hosts: {reason}")
        rooms = ROOM[:1]
    for number, factor in enumerate(rooms):
        if monitor.is_proved():
            return
        question = plain if factor == 1 else _roomier(plain, factor)
        inner = monitor.for_question(question, lambda plan: _fitted(problem, plan))
        inner.time_limit_s = monitor.remaining_s / min(2, len(rooms) - number)
        with suppress(Stop):
            search(question, inner)
        monitor.check()
        if inner.judged is not None:
            for other in inner.front.beside(inner.objective_s, inner.judged.peak_bytes):
                monitor.offer(_fitted(problem, other.plan))


def _fitted(problem: Problem, plan: Plan) -> Plan:
    """The plan, in which devices that hold too much send to hosts what they must; itself where that is not enough."""
    return fitted(problem, plan).plan or plan


def _roomier(problem: Problem, factor: float) -> Problem:
    """The question on accelerators with so many times their memory, in which operators keep what they save: what has no
    room for it in the end is chosen with what goes to hosts."""
    devices = tuple(
        device if device.is_cpu else replace(device, memory_bytes=device.memory_bytes * factor)
        for device in problem.cluster.devices
    )
    return replace(problem, cluster=Cluster(devices, problem.cluster.links), recompute_operators=False)
