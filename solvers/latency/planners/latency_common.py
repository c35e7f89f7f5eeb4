"""What the latency planners share: models at several memory shares, and offering a placement."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.planners.chain_dp import memory_shares
from solvers.kernels.arrays import Ints
from solvers.latency.bounds import MOST_OPERATORS, order_of, path_bound_s, paths
from solvers.latency.model import LatencyModel
from solvers.latency.path_cut_kernel import network_for
from solvers.latency.plans import latency_s, pieces_of, plan_of_calls
from solvers.latency.series_bound import series_bound
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem
from solvers.search.monitor import Monitor

FREE_PIECES = 4
"""Pieces per accelerator tried where the problem sets no limit."""


def models(problem: Problem, monitor: Monitor) -> Iterator[LatencyModel]:
    """Models with smaller and smaller caps, until a plan fits: where memory is counted from the schedule,
    buffers and live activations come on top of what the model counts."""
    for share in memory_shares(problem):
        monitor.check()
        yield LatencyModel.of(problem, share)
        if monitor.best is not None:
            return


def piece_limit(problem: Problem) -> int:
    """Pieces per accelerator a search may use."""
    return problem.subgraphs_per_device or FREE_PIECES


def raise_path_bounds(problem: Problem, monitor: Monitor, count: int = 4) -> None:
    """Raise the bound by what ``count`` heavy paths prove."""
    if problem.max_replicas > 1 or len(problem.graph) > MOST_OPERATORS or monitor.is_proved():
        return
    model = LatencyModel.of(problem)
    order, network = order_of(model), network_for(model.calls)
    for path in islice(paths(model, monitor.rng.randrange(2**31)), count):
        below_s = monitor.objective_s
        bound_s = path_bound_s(model, order, path, problem.subgraphs_per_device, below_s, monitor.check, network)
        if math.isfinite(bound_s):
            monitor.raise_bound(bound_s)
        if monitor.is_proved():
            return


def raise_series_bound(problem: Problem, monitor: Monitor) -> None:
    """Raise the bound by what operators prove that all others come before or after, and offer the plan it is of."""
    if len(problem.graph) > MOST_OPERATORS or monitor.is_proved():
        return
    model = LatencyModel.of(problem)
    series = series_bound(model, order_of(model), monitor.check)
    if series is None:
        return
    place = _in_turn(model, _fewer(model, series.call, piece_limit(problem), monitor), piece_limit(problem))
    if place is not None:
        offer_places(model, monitor, place)
    if problem.max_replicas == 1:
        monitor.raise_bound(min(series.seconds, monitor.objective_s))


def _fewer(model: LatencyModel, call: Ints, pieces: int, monitor: Monitor) -> Ints:
    """As many calls as there is room for: one after the other goes to CPUs, always that which is missed least."""
    call = call.copy()
    numbers = [number for number in range(int(call.max(initial=-1)) + 1) if (call == number).any()]
    while len(numbers) > model.accelerators * pieces:
        depth = -(-len(numbers) // model.accelerators)
        least, dropped = math.inf, numbers[-1]
        for number in numbers:
            monitor.check()
            place = _in_turn(model, np.where(call == number, -1, call), depth)
            cut = None if place is None else pieces_of(model, place, depth)
            seconds = math.inf if cut is None else latency_s(model, cut, depth)
            if seconds < least:
                least, dropped = seconds, number
        call[call == dropped] = -1
        numbers.remove(dropped)
    return call


def _in_turn(model: LatencyModel, call: Ints, pieces: int) -> Ints | None:
    """Places for calls: each on the accelerator with the fewest that has room and may have it, what finds none on
    CPUs; None if that takes a group apart, or CPUs may not have it."""
    place = on_cpus(model)
    held, taken = np.zeros(model.accelerators), np.zeros(model.accelerators)
    for number in range(int(call.max(initial=-1)) + 1):
        groups = np.unique(model.group_of[call == number])
        nbytes = float(model.group_bytes[groups].sum())
        fits = model.allowed[groups, :-1].all(axis=0) & (held + nbytes <= model.caps[:-1]) & (taken < pieces)
        if fits.any():
            target = int(np.where(fits, taken, np.inf).argmin())
            place[call == number] = target
            held[target] += nbytes
            taken[target] += 1
    least, most = np.full(model.groups, model.accelerators), np.zeros(model.groups, np.int64)
    np.minimum.at(least, model.group_of, place)
    np.maximum.at(most, model.group_of, place)
    return place if (least == most).all() and model.allowed[model.group_of, place].all() else None


def offer_places(model: LatencyModel, monitor: Monitor, place: Ints) -> float:
    """Have a placement judged, cut into the fewest pieces; its latency in seconds, inf if it cannot run."""
    pieces = piece_limit(model.problem)
    call = pieces_of(model, place, pieces)
    if call is None or math.isinf(latency_s(model, call, pieces)):
        return math.inf
    return monitor.offer(plan_of_calls(model, call, pieces))


def blocks_of(problem: Problem) -> Ints:
    """The number of each operator's block, [operators]: groups on a cycle of groups form one block,
    because one piece per accelerator cannot hold only some of them."""
    return Condensed(problem, ordered=True).node_of


def on_cpus(model: LatencyModel) -> Ints:
    """Every operator on a CPU."""
    return np.full(len(model.group_of), model.accelerators, np.int64)


def places_of(model: LatencyModel, plan: Plan) -> Ints:
    """The place of every operator in a plan."""
    place = np.empty(len(model.group_of), np.int64)
    for stage in plan.stages:
        place[list(stage.operators)] = min(stage.devices[0], model.accelerators)
    return place
