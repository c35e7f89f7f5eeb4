"""Plans of which each device runs again the least that its memory asks for, offered at the end of a search."""

from __future__ import annotations

from collections.abc import Sequence

from solvers.pipelines.recomputation.fitted import fitted
from solvers.plan.plan import Plan
from solvers.plan.result import StopReason
from solvers.programs.optional import lacking
from solvers.search.monitor import Monitor, Stop


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
            found = fitted(monitor.problem, plan)
            if found.plan is not None:
                monitor.offer(found.plan)
        except Stop as stop:
            return stop.reason
        if found.plan is not None and monitor.best is found.plan and any(found.again_s):
            device = max(range(len(found.again_s)), key=found.again_s.__getitem__)
            again_ms, bound_ms = 1e3 * found.again_s[device], 1e3 * found.bound_s[device]
            name = monitor.problem.cluster.devices[device].name
            monitor.note(
                f"{name} runs most again, {again_ms:.3g} ms for a micro-batch; with these stages, in this order, at"
                f" least {bound_ms:.3g} ms"
            )
    return stop_reason
