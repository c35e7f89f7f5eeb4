"""Starts for a search of max-load where links between hosts are slower than those inside."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from solvers.contiguous.planners.chain_dp import LinearDP
from solvers.contiguous.planners.downset_dp import DownsetDP
from solvers.errors import InvalidPlan
from solvers.noncontiguous.planners.annealing import Annealing
from solvers.noncontiguous.slots import orders_of, speeds
from solvers.plan.plan import Plan
from solvers.plan.segments import Place
from solvers.problem.problem import Contiguity, Objective, Problem
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor, Stop
from solvers.search.planner import Planner

START_DOWNSETS, START_WORK = 200_000, 300
"""Of the dynamic program: downsets, and pieces of work of a few hundredths of a second."""
START_ROUNDS = 3
"""Rounds without gain after which the annealing for a start ends."""
MOST_DEALS = 100
"""Orders in which the parts of one plan are dealt out to hosts; each is judged, in 1 to 50 ms."""


def start_on_hosts(problem: Problem, monitor: Monitor) -> None:
    """Offer the best plan so far, and what is best if all links are as fast as those inside hosts, its parts dealt out
    to the hosts in every order, and chains within each host. No chain is below the least load of those all of whose
    links are fast, which is a bound where chains are required. Raises Stop, through ``monitor.check``."""
    if monitor.best is not None:
        deal(problem, monitor, monitor.best)
    alike = _with_near_links(problem)
    if alike is not None:
        exact = DownsetDP(downset_budget=START_DOWNSETS, work=monitor.effort.of(START_WORK))
        bound_s = _deal_best(exact, replace(alike, contiguity=Contiguity.ACYCLIC), problem, monitor)
        if problem.contiguity is not Contiguity.ACYCLIC:
            _deal_best(Annealing(patience=START_ROUNDS), alike, problem, monitor)
        elif problem.objective is Objective.MAX_LOAD:
            monitor.raise_bound(bound_s)
    for host in sorted({device.node for device in problem.cluster.devices}):
        if not monitor.is_proved():
            _offer_within(problem, monitor, host)


def deal(problem: Problem, monitor: Monitor, plan: Plan) -> None:
    """Offer a plan that has sets of operators on one device each, and what it is with its accelerators exchanged for
    others: devices of one class in every order, if there are at most `MOST_DEALS`. Raises Stop."""
    monitor.offer(plan)
    used = dict.fromkeys(stage.devices[0] for stage in plan.stages)
    parts = [device for device in used if not problem.cluster.devices[device].is_cpu]
    placement = plan.placement()
    for order in {order[: len(parts)]: None for order in orders_of(problem, MOST_DEALS)}:
        monitor.check()
        free = {devices: list(devices) for devices in order}
        place = {part: (free[devices].pop(0),) for part, devices in zip(parts, order, strict=True)}
        _offer(problem, monitor, plan, [place.get(placement[o][0], placement[o]) for o in range(len(problem.graph))])


def _with_near_links(problem: Problem) -> Problem | None:
    """The problem with all links as fast as those inside hosts, where these are of one speed."""
    near = speeds(problem)
    if near is None:
        return None
    return replace(problem, cluster=problem.cluster.at_speed(*near[0]))


def _deal_best(planner: Planner, alike: Problem, problem: Problem, monitor: Monitor) -> float:
    """Deal out what a planner finds for another problem; the bound that it proves there, in seconds."""
    if planner.unsupported(alike) is not None:
        return 0.0
    inner = monitor.for_question(alike)
    with suppress(Stop):
        planner(alike, inner)
    monitor.check()
    if inner.best is not None:
        deal(problem, monitor, inner.best)
    return inner.bound_s


def _offer_within(problem: Problem, monitor: Monitor, host: int) -> None:
    """Offer the linearised program's plan for the devices of one host, whose links are all equally fast."""
    cluster, quick = problem.cluster, LinearDP()
    devices = [number for number, device in enumerate(cluster.devices) if device.node == host]
    inside = replace(problem, cluster=cluster.part(devices))
    if quick.unsupported(inside) is not None:
        return
    inner = monitor.for_question(inside)
    quick(inside, inner)
    if inner.best is not None:
        placement = inner.best.placement()
        places = [tuple(devices[d] for d in placement[operator]) for operator in range(len(problem.graph))]
        _offer(problem, monitor, inner.best, places)


def _offer(problem: Problem, monitor: Monitor, like: Plan, places: list[Place]) -> None:
    """Offer a placement, with the micro-batches of a plan."""
    with suppress(InvalidPlan):
        monitor.offer(assemble(problem, places, problem.mini_batch // like.stages[0].micro_batch_size))
