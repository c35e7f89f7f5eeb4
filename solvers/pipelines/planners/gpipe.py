"""GPipe: one balanced chain of stages, all forwards before all backwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.chains import Chain, Part, iteration_floor_s, topological_orders
from solvers.contiguous.planners.chain_dp import micro_batch_choices
from solvers.pipelines.even_cuts import cheapest
from solvers.pipelines.offers import offer_draft, unsupported
from solvers.pipelines.recomputation.levels import choices_allowed
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.search.monitor import Monitor
from solvers.search.planner import at_least
from solvers.search.work import Work


@dataclass(frozen=True)
class GPipe:
    """As many stages as accelerators, cut where computation is spread most evenly.

    The operators are taken as a row, as GPipe takes its layers (of ``orders`` topological orders the best
    plan is kept), and cut so that the largest and then the variance of the stages' compute times are least.
    Every stage runs all its forwards, then all its backwards, whatever pipeline the problem asks for.
    Stages recompute their forward, as GPipe's do, where the problem allows it and memory asks for it.
    """

    name: ClassVar[str] = "gpipe"
    source: ClassVar[str] = "Huang et al., NeurIPS 2019, section 2.2"
    guarantee: ClassVar[str] = "heuristic"

    orders: int = 2

    def __post_init__(self) -> None:
        at_least(self, {"orders": 1})

    def unsupported(self, problem: Problem) -> str | None:
        return unsupported(problem)

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        condensed = Condensed(problem, ordered=True)
        effort = Work()
        iterates = problem.objective is Objective.ITERATION
        for count in micro_batch_choices(problem):
            samples = problem.mini_batch // count
            contracted = condensed.at(samples, merge_trivial=False)
            if not contracted.supported.all():
                monitor.note("an operator cannot run on the accelerators, so they cannot run all stages")
                return False
            for order in topological_orders(contracted.shape, self.orders):
                monitor.check()
                nodes = order[::-1].tolist()
                ends, used = balanced_cut(contracted.acc_s[nodes].tolist(), len(problem.cluster.accelerators))
                effort += used
                parts = [tuple(nodes[begin:end]) for begin, end in zip((0, *ends), ends, strict=False)]
                chain = Chain(math.nan, tuple(Part(False, part) for part in parts))
                if iteration_floor_s(problem, contracted, chain) >= monitor.objective_s and iterates:
                    continue
                _offer(problem, monitor, parts, contracted.shape.members, samples)
        if monitor.best is None:
            advice = "" if problem.recompute else "; recomputation is not allowed, which GPipe relies on"
            monitor.note(
                f"the activations that some stage keeps of all micro-batches at once do not fit on its device{advice}"
            )
        monitor.note(f"balanced cuts: {effort}")
        return False


def _offer(
    problem: Problem, monitor: Monitor, sets: list[tuple[int, ...]], members: Sequence[Sequence[int]], samples: int
) -> None:
    ordered = replace(problem, pipeline=Pipeline.GPIPE)
    for again in choices_allowed(problem):
        draft = Draft(tuple(DraftStage(nodes, samples, recompute=again) for nodes in sets))
        if offer_draft(ordered, monitor, draft.expanded(members)) < math.inf:
            return


def balanced_cut(weights: Sequence[float], parts: int) -> tuple[tuple[int, ...], Work]:
    """Where each part ends, and the effort: the least largest sum, and of those cuts the least variance.

    As many parts as are asked for, or as there are weights (>= 0) if they are fewer. Exact, by two
    dynamic programs over (end, parts).
    """
    count = len(weights)
    parts = min(parts, count)
    total = np.concatenate([[0.0], np.cumsum(np.asarray(weights, np.float64))])
    sums = total[None, :] - total[:, None]  # [begin, end]
    allowed = np.triu(np.ones((count + 1, count + 1), bool), 1)
    largest, _ = cheapest([np.where(allowed, sums, np.inf)] * parts, np.maximum)
    fits = allowed & (sums <= largest * (1 + 1e-12))
    _, cuts = cheapest([np.where(fits, sums**2, np.inf)] * parts, np.add)
    return tuple(cuts[1:]), Work(2 * parts * count, parts * count * (count + 1))
