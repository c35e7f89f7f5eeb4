"""Other orders for the stages of a plan: what a planner may choose when the pipeline is left to it."""

from __future__ import annotations

from collections.abc import Iterator

from solvers.plan.plan import Plan
from solvers.problem.problem import Problem
from solvers.schedules.ordering.arrange import arranged_as
from solvers.schedules.ordering.orders import stage_waits
from solvers.schedules.ordering.stage_actions import Run, StageActions, shortest_first, splits, stage_actions
from solvers.schedules.ordering.zero_bubble import PATIENCE

EAGER = (0, 1, 2, 4)
"""Forwards more than 1F1B that a device runs when it would idle."""
MOST_OFFERED = 4
"""Runs of each kind, whole and split backwards, that are worth judging."""


def own_orders(problem: Problem, plan: Plan) -> Iterator[Plan]:
    """The plan's stages in other orders, the most promising first; they may not fit.

    Event simulations with the time that transfers take: with a few more forwards in flight than the plan's
    stages have, when a device would idle, or as many as there are; with B whole and, where the graph
    allows it, with gradients of parameters put off (see `zero_bubble`). The promising ones are
    chosen by simulated length; links that transfers keep busy, and memory, are for the judge to see.
    """
    if not problem.has_backward():
        return
    waits = stage_waits(problem.graph, [stage.operators for stage in plan.stages])
    candidates: list[tuple[StageActions, Run]] = []
    for split in (True, False) if splits(problem.graph) else (False,):
        actions = stage_actions(problem, plan.stages, split=split)
        candidates += [(actions, run) for run in _runs(problem, plan, actions, split=split)[:MOST_OFFERED]]
    for actions, run in sorted(candidates, key=lambda pair: pair[1].length_s):
        yield arranged_as(problem, plan.stages, waits, actions.per_device(run), "custom")


def _runs(problem: Problem, plan: Plan, actions: StageActions, *, split: bool) -> list[Run]:
    counts = [problem.mini_batch // stage.micro_batch_size for stage in plan.stages]
    base = [min(stage.in_flight, count) for stage, count in zip(plan.stages, counts, strict=True)]
    most = max(held * stage.micro_batch_size for held, stage in zip(base, plan.stages, strict=True))
    level = [max(a, min(most // s.micro_batch_size, c)) for a, s, c in zip(base, plan.stages, counts, strict=True)]
    starts: list[tuple[list[int], list[int]]] = []
    for more in (*EAGER, max(counts)):
        for start in (base, level) if split else (base,):
            limits = [min(held + more, count) for held, count in zip(start, counts, strict=True)]
            starts += [(limits, ahead) for ahead in ((base, limits) if split else (limits,))]
    orders = [("IFW", p) for p in PATIENCE] if split else [("BF", 0.0), ("FB", 0.0)]
    tries = [(limits, ahead, *order) for limits, ahead in starts for order in orders]
    return shortest_first(
        actions.run(order, limits, ahead=ahead, patience=patience)
        for limits, ahead, order, patience in actions.affordable(tries)
    )
