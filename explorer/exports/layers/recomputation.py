"""What of a plan runs its forward again before its backward, and what that saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto

from explorer.words import text
from solvers.errors import PlacementError
from solvers.evaluation.evaluate import evaluate
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem
from solvers.problem.regions import regions_of


class Again(Enum):
    """What runs again. STAGES: every stage as a whole. LAYERS: every layer by itself. OPERATORS: of every layer all
    but the operators that cache their results. PARTS: anything else."""

    NOTHING = auto()
    STAGES = auto()
    LAYERS = auto()
    OPERATORS = auto()
    PARTS = auto()


def regions_again(problem: Problem) -> Mapping[int, str]:
    """Forward operator -> the region that it runs again with; empty where the problem counts none."""
    return {} if problem.plain is None else regions_of(problem.plain.graph).of


def not_recomputed(problem: Problem, plan: Plan, how: str = "switch it on in the launcher") -> list[str]:
    """A sentence on what the plan runs again and a file does not say, and on the peaks without it; empty if nothing
    runs again.

    how: what to do about it.
    """
    stages = [str(i) for i, stage in enumerate(plan.stages) if stage.recompute]
    regions = regions_again(problem)
    if stages:
        what = f"stage{'s' if len(stages) > 1 else ''} {text.listing(stages, len(stages))}"
    elif regions:
        what = text.listing(list(dict.fromkeys(regions.values())))
        if any(problem.graph.operators[o].cached for o in regions):
            what = f"the cheap operators of {what}"
    else:
        return []
    return [f"recomputation of {what}, which the plan's memory counts on: {how}{peaks_without(problem, plan)}"]


def peaks_without(problem: Problem, plan: Plan) -> str:
    """The end of a sentence: the least and the highest peak of a device as planned, and where nothing runs again."""
    plain = problem.as_traced
    unchanged = replace(problem, graph=plain.graph, compute=plain.compute, plain=None)
    stages = tuple(replace(stage, recompute=False, regions=()) for stage in plan.stages)
    try:
        planned = _span(evaluate(problem, plan).peak_memory_bytes)
        without = _span(evaluate(unchanged, replace(plan, stages=stages)).peak_memory_bytes)
    except PlacementError:  # modules that were moved may send where no link is
        return ""
    return f"; predicted peaks of {planned} are {without} without it"


def _span(peaks: tuple[float, ...]) -> str:
    ends = [text.nbytes(peak) for peak in (min(p for p in peaks if p > 0), max(peaks))]
    return " to ".join(dict.fromkeys(ends))
