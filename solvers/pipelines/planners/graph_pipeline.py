"""Pipelines whose stages form a DAG: branches of the model run beside each other, not one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from solvers.contiguous.planners.chain_dp import micro_batch_choices
from solvers.pipelines.ladder import simpler
from solvers.pipelines.planners.draft_search import PATIENCE, DraftSearch
from solvers.pipelines.planners.pipedream_iter import PipeDreamIteration
from solvers.pipelines.seating import kinds_by_speed
from solvers.pipelines.tree.starts import of_plan, over_super_operators
from solvers.plan.drafts import Draft
from solvers.plan.plan import Plan
from solvers.problem.pinned import with_pins_together
from solvers.problem.problem import Objective, Problem
from solvers.search.monitor import Monitor
from solvers.search.planner import at_least

MODES = ("iteration", "paper")
FEW_DEVICES = 16
"""On more, boundaries of stages are not moved under the full simulation before the search: that would take most of the
time."""
IN_SEQUENCE = 100
"""Estimates, at normal effort, for each linear order that is cut before the search."""


@dataclass(frozen=True)
class GraphPipeline:
    """A DAG of stages, each with its replicas, for the iteration with flush.

    mode "iteration": for every micro-batch size and a grid of bottlenecks, the stages of least critical
    path over the graph's series-parallel tree, over the same with joins put to a branch, and over a chain
    (so no sequential plan of that kind is missed); all are estimated as the simulator would tell, and from
    the best ``starts`` a local search goes on, for at most ``evaluations`` estimates at normal effort. Then,
    with ``ladder``, `simpler` questions are answered in the same way, and a plan of theirs that is better is gone on
    from. mode "paper": the published search, which meets the least bottleneck (time per sample) with the fewest
    micro-batches in flight, every stage on devices of its own, and keeps the micro-batch size that simulates
    best.
    """

    name: ClassVar[str] = "graph-pipeline"
    source: ClassVar[str] = "Jeon et al., GraphPipe, ASPLOS 2025; the iteration mode is new here"
    guarantee: ClassVar[str] = "heuristic"

    mode: str = "iteration"
    starts: int = 3
    evaluations: int = 1000
    ladder: bool = True

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, found {self.mode!r}")
        at_least(self, {"starts": 1, "evaluations": 0})

    def unsupported(self, problem: Problem) -> str | None:
        if problem.is_latency:
            return "the latency of one sample, which no pipeline shortens; use latency"
        if not problem.cluster.accelerators:
            return "a cluster without accelerators; use auto"
        never = np.isinf(problem.compute.at(kinds_by_speed(problem)[0], 1))
        if never.any():
            name = problem.graph.operators[int(np.argmax(never))].name
            return f"operator {name!r}, which no accelerator runs; use auto"
        if any(problem.cluster.devices[device].is_cpu for device in problem.pins.values()):
            return "operators pinned to CPUs; use local-search or auto, or remove the pins"
        return None

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        self._search(with_pins_together(problem), monitor, {})
        return False

    def go_on(self, problem: Problem, monitor: Monitor, plans: Sequence[Plan]) -> None:
        """Local search from plans of questions about the same graph, which need not fit here and are `repaired` to keep
        the pins: a quarter of the evaluations each."""
        search = DraftSearch(with_pins_together(problem), monitor)
        for plan in plans:
            start = search.with_pins(of_plan(search.condensed, plan))
            if start is not None:
                search.go_on_from(start, monitor.effort.of(self.evaluations) // 4, monitor.effort.of(PATIENCE))

    def keeping_pins(self, problem: Problem, plan: Plan) -> Plan | None:
        """The plan `repaired` to keep the pins; None where that was not possible."""
        search = DraftSearch(with_pins_together(problem), Monitor(problem))
        start = search.with_pins(of_plan(search.condensed, plan))
        return None if start is None or search.judge(start) == np.inf else search.made

    def _relax(self, problem: Problem, monitor: Monitor) -> None:
        """Offer what is found by cutting linear orders: its stages wait for what they read alone."""
        few = len(problem.cluster.accelerators) <= FEW_DEVICES
        sequential = PipeDreamIteration(starts=1, evaluations=IN_SEQUENCE, moves=few)
        if sequential.unsupported(problem) is None:
            sequential(problem, monitor)

    def _search(self, problem: Problem, monitor: Monitor, known: dict[tuple[int, int], _Answer]) -> _Answer:
        """known: the answers of simpler questions that were asked already, by devices and replicas."""
        search = DraftSearch(problem, monitor)
        single = problem.objective is Objective.MAKESPAN
        counts = micro_batch_choices(problem)
        if self.mode == "paper":
            search.published(counts)
        else:
            self._relax(problem, monitor)
            search.go_by(monitor.best)
            search.start(counts)
            effort = monitor.effort
            search.refine(self.starts, effort.of(self.evaluations), effort.of(PATIENCE))
            for one in simpler(problem) if self.ladder and self.evaluations and not single else ():
                question = one.question
                key = one.key
                if key not in known:
                    replicas = " without replicas" if question.max_replicas < problem.max_replicas else ""
                    monitor.begin(f"the same on {len(question.cluster)} devices{replicas}")
                    known[key] = self._search(question, monitor.for_question(question), known)
                plan, draft = known[key]
                before_s = monitor.objective_s
                if plan is not None and monitor.offer(one.answer(plan)) < before_s:
                    of = search.condensed
                    start = of_plan(of, plan) if draft is None else over_super_operators(of, draft)
                    search.go_on_from(start, effort.of(self.evaluations) // 4, effort.of(PATIENCE))
        search.remap()
        monitor.note(f"graph-pipeline: {search.starts.effort}, {search.estimates:,} estimates")
        return _Answer(monitor.best, search.best if search.made is monitor.best else None)


class _Answer(NamedTuple):
    """The best plan of a question, and the draft over operators that it was made of, where it was made of one."""

    plan: Plan | None
    draft: Draft | None
