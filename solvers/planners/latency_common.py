"""What the latency planners share: models at several memory shares, and offering a placement."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from solvers.coarsen import Condensed
from solvers.kernels.latency import Ints
from solvers.latency_model import LatencyModel
from solvers.latency_plans import latency_s, pieces_of, plan_of_calls
from solvers.monitor import Monitor
from solvers.planners.chain_dp import memory_shares
from solvers.problem import Problem

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


def places_fit(model: LatencyModel, place: Ints) -> bool:
    """Whether every group may be where ``place`` [operators] puts it and all caps hold."""
    where = np.empty(model.groups, np.int64)
    where[model.group_of] = place
    held = np.bincount(where, model.group_bytes, model.accelerators + 1)
    return bool(model.allowed[np.arange(model.groups), where].all() and (held <= model.caps).all())


def on_cpus(model: LatencyModel) -> Ints:
    """Every operator on a CPU."""
    return np.full(len(model.group_of), model.accelerators, np.int64)


def spread(sets: Sequence[Sequence[int]], model: LatencyModel) -> Ints:
    """The i-th set of operators on the i-th accelerator, the others on CPUs."""
    place = on_cpus(model)
    for accelerator, operators in enumerate(sets):
        place[list(operators)] = accelerator
    return place
