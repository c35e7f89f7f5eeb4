"""Searches whose plans say what runs again or goes to hosts: without that first, and in the end each device by its
memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from solvers.pipelines.recomputation.fitted import fitted
from solvers.plan.plan import Plan
from solvers.plan.result import StopReason
from solvers.problem.problem import Problem
from solvers.programs.optional import lacking
from solvers.search.monitor import Monitor, Stop

PLAIN_SHARE = 0.5
"""Of the time, for the question in which no plan says that."""


def search_without(problem: Problem, monitor: Monitor, search: Callable[[Problem, Monitor], object]) -> None:
    """Offer the plans of the question in which only whole stages may run again, if that: more freedom never makes an
    answer worse than half the time gives without.

    search: offers plans of a question. Raises Stop.
    """
    plain = replace(problem, recompute_operators=False)
    inner = monitor.for_question(plain, lambda plan: plan)
    inner.time_limit_s *= PLAIN_SHARE
    with suppress(Stop):
        search(plain, inner)
    monitor.check()


def offer_fitted(monitor: Monitor, plans: Sequence[Plan], stop_reason: StopReason) -> StopReason:
    """Offer the plans, fitted (`solvers.pipelines.recomputation.fitted`), the best first; why the search ended.

    After the time limit only the first of them. What the best runs again in the end is noted, with its bound.
    """
    if reason := lacking("highspy"):
        monitor.note(f"what runs again was not fitted to each device: {reason}")
        return stop_reason
    late = stop_reason is StopReason.TIME_LIMIT
    for plan in plans[:1] if late else plans:
        try:
            if not late:
                monitor.check()
            monitor.begin("running again only what memory asks for")
            fit = fitted(monitor.problem, plan)
            if fit.plan is not None:
                monitor.offer(fit.plan)
        except Stop as stop:
            return stop.reason
        if fit.plan is not None and monitor.best == fit.plan and any(fit.longer_s):
            device = max(range(len(fit.longer_s)), key=fit.longer_s.__getitem__)
            longer, least = (_seconds(each[device]) for each in (fit.longer_s, fit.bound_s))
            problem = monitor.problem
            why = ["what runs again"] * problem.recompute_operators + ["copies to its host"] * bool(problem.host_links)
            monitor.note(
                f"{problem.cluster.devices[device].name} takes {longer} longer for a micro-batch, for"
                f" {' and '.join(why)}; with these stages, in this order, at least {least}"
            )
    return stop_reason


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
