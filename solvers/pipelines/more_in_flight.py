"""Give a pipeline more micro-batches in flight where that hides transfers."""

from __future__ import annotations

from dataclasses import replace

from solvers.pipelines.boundary_moves import draft_of
from solvers.plan.drafts import Draft
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.schedules.realise import realise
from solvers.search.monitor import Monitor

SLACK = 2
"""How many times what the rule asks for is tried beyond it."""


def offer_more_in_flight(problem: Problem, monitor: Monitor) -> None:
    """Offer the best plan with one and two times as many micro-batches in flight beyond the rule.

    Where neighbours differ by one, as the rule has it, every transfer between them delays each
    micro-batch; as many more on all stages change nothing, one more for every stage that follows does.
    """
    plan = monitor.best
    if plan is None or problem.objective is not Objective.ITERATION or not problem.has_backward():
        return
    used = [device for stage in plan.stages for device in stage.devices]
    if len(plan.stages) == 1 or len(used) > len(set(used)) or problem.pipeline is Pipeline.GPIPE:
        return
    draft = draft_of(problem, plan)
    for times in range(1, SLACK + 1):
        monitor.check()
        more = tuple(
            replace(stage, slack=times * (mine.in_flight - stage.slack))
            for stage, mine in zip(draft.stages, plan.stages, strict=True)
        )
        monitor.offer(realise(problem, Draft(more), [stage.devices for stage in plan.stages]))
