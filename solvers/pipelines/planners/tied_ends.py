"""Models whose ends must share a device: planned with the late end folded into the early one, then unfolded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from solvers.errors import InvalidPlan
from solvers.pipelines.folded import folded, late_ends, part_of
from solvers.pipelines.offers import run_planner
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.problem.problem import SEVERAL_STAGES, Contiguity, Objective, Problem
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor


@dataclass(frozen=True)
class TiedEnds:
    """A pipeline that comes back to the device where it began, for parameters that are read at both ends.

    `folded` makes a question of it in which the late end's work is the early one's; `GraphPipeline` answers that, and
    unfolded, the late end is a stage of its own on the early one's device. Devices run several stages then, so
    contiguity is none. A heuristic: the folded question leaves out what the way back costs.
    """

    name: ClassVar[str] = "tied-ends"
    source: ClassVar[str] = "new here"
    guarantee: ClassVar[str] = "heuristic"

    evaluations: int = 1000

    def unsupported(self, problem: Problem) -> str | None:
        if problem.objective is not Objective.ITERATION:
            return "objectives other than iteration; use auto"
        if problem.contiguity is not Contiguity.NONE and problem.pipeline not in SEVERAL_STAGES:
            return "devices with one stage each, which cannot hold two ends of a model; use --contiguity none"
        if not part_of(problem.graph):
            return "models of which no late part must share the device of an early one; use graph-pipeline"
        return GraphPipeline().unsupported(replace(problem, contiguity=Contiguity.ACYCLIC))

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        late = folded(problem)
        if late is None:
            return False
        inner = monitor.for_question(late.question)
        run_planner(GraphPipeline(evaluations=self.evaluations), inner)
        if inner.best is None:
            return False
        placement = late.unfolded(inner.best.placement())
        for count in dict.fromkeys(problem.mini_batch // stage.micro_batch_size for stage in inner.best.stages):
            if count in problem.micro_batch_choices():
                try:
                    monitor.offer(assemble(problem, placement, count))
                except InvalidPlan:
                    continue
        late_end, early_end = next(iter(late_ends(problem.graph).items()))
        names = [problem.graph.operators[i].name for i in (late_end, early_end)]
        monitor.note(f"tied-ends: {names[0]} is on the device of {names[1]}, with which it shares parameters or a rule")
        return False
