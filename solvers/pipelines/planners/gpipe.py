"""GPipe: one balanced chain of stages, all forwards before all backwards."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from solvers.coarsening.coarsen import Condensed
from solvers.contiguous.chains import Chain, Part, iteration_floor_s, topological_orders
from solvers.contiguous.planners.chain_dp import micro_batch_choices, unsupported
from solvers.errors import InvalidPlan
from solvers.pipelines.balanced_cut import balanced_cut
from solvers.plan.drafts import Draft, DraftStage
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.schedules.realise import realise
from solvers.search.monitor import Monitor
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
        if self.orders < 1:
            raise ValueError(f"orders must be at least 1, found {self.orders}")

    def unsupported(self, problem: Problem) -> str | None:
        if not problem.cluster.accelerators:
            return "it cuts pipelines of accelerators, and the cluster has none"
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
                members = contracted.shape.members
                _offer(problem, monitor, [tuple(o for node in part for o in members[node]) for part in parts], samples)
        if monitor.best is None:
            advice = "" if problem.recompute else "; recomputation is not allowed, which GPipe relies on"
            monitor.note(
                f"the activations that some stage keeps of all micro-batches at once do not fit on its device{advice}"
            )
        monitor.note(f"balanced cuts: {effort}")
        return False


def _offer(problem: Problem, monitor: Monitor, sets: list[tuple[int, ...]], samples: int) -> None:
    ordered = replace(problem, pipeline=Pipeline.GPIPE)
    for again in (False, True) if problem.recompute else (False,):
        monitor.check()
        draft = Draft(tuple(DraftStage(operators, samples, recompute=again) for operators in sets))
        try:
            if monitor.offer(realise(ordered, draft)) < math.inf:
                return
        except InvalidPlan:  # backward tensors that do not mirror forward ones flow round its stages
            return
