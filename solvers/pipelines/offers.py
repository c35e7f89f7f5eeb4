"""What planners of pipelines share: which micro-batches to look at first, and how their drafts are judged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from solvers.bounds.combinatorial import bound_with_s
from solvers.contiguous.planners.chain_dp import unsupported as unsupported_by_chains
from solvers.errors import InvalidPlan
from solvers.pipelines.recomputation.levels import stated
from solvers.plan.drafts import Draft
from solvers.plan.result import StopReason
from solvers.plan.segments import Place
from solvers.problem.problem import Problem
from solvers.schedules.realise import realise
from solvers.search.monitor import Monitor, Stop
from solvers.search.planner import Planner


def unsupported(problem: Problem) -> str | None:
    """What no planner of chains of accelerators can represent, or None."""
    if not problem.cluster.accelerators:
        return "it plans pipelines of accelerators, and the cluster has none"
    return unsupported_by_chains(problem)


class Count(NamedTuple):
    """A number of micro-batches. bound_s: what the objective is at least with so many. likely_s: the same with the time
    to fill and drain a pipeline of all accelerators."""

    micro_batches: int
    bound_s: float
    likely_s: float


def likely_counts(problem: Problem, counts: Iterable[int]) -> list[Count]:
    """Numbers of micro-batches, the most promising first."""
    spread = len(problem.cluster.accelerators) - 1
    bounds = {count: bound_with_s(problem, count) for count in counts}
    likely = [Count(count, bound_s, bound_s * (count + spread) / count) for count, bound_s in bounds.items()]
    return sorted(likely, key=lambda one: one.likely_s)


def run_planner(planner: Planner, inner: Monitor) -> None:
    """Have a planner answer another question, that of ``inner``; of what ends it only a cancel goes on."""
    try:
        planner(inner.problem, inner)
    except Stop as stop:
        if stop.reason is StopReason.CANCELLED:
            raise


def offer_draft(problem: Problem, monitor: Monitor, draft: Draft, devices: Sequence[Place] | None = None) -> float:
    """Have the plan of a draft judged: its objective in seconds; inf if it does not fit, or its stages wait for each
    other, as where backward tensors do not mirror forward ones."""
    monitor.check()
    try:
        return monitor.offer(realise(problem, stated(problem, draft), devices))
    except InvalidPlan:
        return math.inf
