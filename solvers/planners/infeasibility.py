"""When nothing fits: which operators cause it, and what cap would do."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from solvers.bounds.combinatorial import memory_need
from solvers.evaluation.simulation import run
from solvers.kernels.compiling import Compiling
from solvers.plan.result import StopReason
from solvers.planners.auto import Auto
from solvers.planners.solve import solve
from solvers.problem.cluster import Cluster
from solvers.problem.problem import Problem
from solvers.search.monitor import never
from solvers.search.planner import Planner

RESOLUTION = 0.005
"""The search for the smallest cap stops when it is known to half a per cent."""
ANY_PLAN = 1.0
"""A gap that every plan keeps: a search ends with the first."""


@dataclass(frozen=True, slots=True)
class Infeasibility:
    """Why no plan fits the accelerators' memory.

    operators: names of those that force the most memory. cap_lower_bound_bytes: proved, no plan
    exists below it. smallest_cap_bytes: the smallest cap at which a plan was found, or None. searched: whether time was
    left to look for a smaller one.
    """

    operators: tuple[str, ...]
    because: str
    cap_lower_bound_bytes: float
    smallest_cap_bytes: float | None
    searched: bool = True


def explain_infeasible(
    problem: Problem,
    planner: Planner | None = None,
    *,
    time_limit_s: float = 5.0,
    should_stop: Callable[[], bool] = never,
    clock: Callable[[], float] = time.perf_counter,
) -> Infeasibility:
    """Blame and the smallest cap, by bisection over solves of ``planner``, by default `auto`; of `auto` too where that
    one finds no plan under any cap.

    The caps between bound and answer are not proved infeasible: the planner found no plan there.
    """
    need = memory_need(problem)
    compiling = Compiling()  # is nobody's search time
    deadline = 0.0
    searched = True

    def peak_under(cap: float, planner: Planner) -> float | None:
        """Peak bytes of a plan found under ``cap``, or None."""
        nonlocal searched
        left = deadline + compiling.seconds - clock()
        if left <= 0 or should_stop():
            searched = False
            return None
        capped = with_cap(problem, cap)
        limit_s = min(left, time_limit_s / 3)
        result = solve(capped, planner, gap=ANY_PLAN, time_limit_s=limit_s, should_stop=should_stop, clock=clock)
        if result.plan is None:
            searched &= result.stop_reason is StopReason.FINISHED
            return None
        peaks = run(capped, result.plan).peak_bytes()
        return float(max(peaks[d] for d in problem.cluster.accelerators))

    smallest = None
    first = Auto(improve=False)
    with compiling:
        for tried in (first,) if planner is None or isinstance(planner, Auto) else (planner, first):
            searched = True
            deadline = clock() + time_limit_s - compiling.seconds
            smallest = _smallest(partial(peak_under, planner=tried), need.nbytes, _enough(problem))
            if smallest is not None:
                break
    names = tuple(problem.graph.operators[o].name for o in need.operators)
    return Infeasibility(names[:5], need.because, need.nbytes, smallest, searched)


def with_cap(problem: Problem, cap_bytes: float) -> Problem:
    """The same problem with every accelerator's memory set to ``cap_bytes``."""
    devices = tuple(
        device if device.is_cpu else replace(device, memory_bytes=cap_bytes) for device in problem.cluster.devices
    )
    return replace(problem, cluster=Cluster(devices, problem.cluster.links))


def _enough(problem: Problem) -> float:
    """A cap under which one device could hold everything, with all micro-batches in flight."""
    static = float(problem.static_bytes().sum())
    if problem.stated_bytes is not None:
        return static
    live = sum(
        o.saved_bytes.at(problem.mini_batch) + o.workspace_bytes.at(problem.mini_batch) for o in problem.graph.operators
    )
    sent = sum(t.nbytes.at(problem.mini_batch) for t in problem.graph.tensors)
    return static + live + sent


def _smallest(peak_under: Callable[[float], float | None], low: float, high: float) -> float | None:
    """The least cap tried at which a plan was found, between one that is (almost) too small and one
    that surely does. After each success the plan's own peak is tried, then the middle."""
    if low > 0 and peak_under(low) is not None:
        return low
    peak = peak_under(high)
    if peak is None:
        return None
    while high - low > RESOLUTION * high:
        middle = math.sqrt(max(low, 1.0) * high) if high > 4 * max(low, 1.0) else (low + high) / 2
        attempt = peak if peak is not None and low < peak < high else middle
        peak = peak_under(attempt)
        if peak is None:
            low = attempt
        else:
            high = attempt
    return high
