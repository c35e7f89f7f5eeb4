"""Of the time that the operators of a plan take, how much was measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.words import text
from solvers.plan.plan import Plan
from solvers.problem.graph import Phase
from solvers.problem.problem import Origin, Problem

WORDS = {Origin.MEASURED: "measured", Origin.INTERPOLATED: "interpolated", Origin.ESTIMATED: "estimated"}


@dataclass(frozen=True, slots=True)
class Share:
    """Shares of the time that all operators of a mini-batch take on all devices; they add up to 1."""

    measured: float
    interpolated: float
    estimated: float

    def words(self) -> str:
        """ "81% of the time measured, 15% interpolated, 4% estimated"."""
        parts = [f"{text.percent(self.measured)} of the time measured"]
        parts += [f"{text.percent(getattr(self, name))} {name}" for name in ("interpolated", "estimated")]
        return ", ".join(parts)

    def as_object(self) -> dict[str, float]:
        return {"measured": self.measured, "interpolated": self.interpolated, "estimated": self.estimated}


def share(problem: Problem, plan: Plan) -> Share | None:
    """None where the problem does not tell origins apart."""
    if not problem.compute.origins:
        return None
    totals = np.zeros(len(Origin))
    once = np.array([operator.phase is Phase.UPDATE for operator in problem.graph.operators])
    for stage in plan.stages:
        operators = np.array(stage.operators)
        samples = stage.micro_batch_size / len(stage.devices)
        times = np.where(once[operators], 1.0, problem.mini_batch / stage.micro_batch_size)
        for device in stage.devices:
            kind = problem.cluster.devices[device].kind
            seconds = problem.compute.at(kind, samples)[operators] * times
            of = problem.compute.origin_at(kind, samples)
            named = np.full(len(operators), Origin.ESTIMATED, dtype=np.uint8) if of is None else of[operators]
            totals += np.bincount(named, weights=np.where(np.isfinite(seconds), seconds, 0.0), minlength=len(Origin))
    total = totals.sum()
    return Share(*(float(part) for part in totals / total)) if total > 0 else None


def costs_words(problem: Problem, plan: Plan | None, *, share_first: bool = False) -> str:
    """Where the times come from, and the share of each origin where they differ. share_first: that first, for where
    the end of a line may be cut off."""
    shares = None if plan is None else share(problem, plan)
    if shares is None:
        return problem.costs_from
    return f"{shares.words()}: {problem.costs_from}" if share_first else f"{problem.costs_from}: {shares.words()}"
