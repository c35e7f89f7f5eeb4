"""Large models that repeat a block: planned over pieces of that block, then expanded and refined at the borders."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from solvers.coarsening.blocks import Blocks, repeated_blocks
from solvers.coarsening.coarsen import Condensed
from solvers.coarsening.contracted import Contracted
from solvers.coarsening.contraction import Contraction, contraction
from solvers.coarsening.pieces import group_order, group_seconds, pieces
from solvers.contiguous.planners.chain_dp import memory_shares
from solvers.errors import InvalidPlan
from solvers.pipelines.boundary_moves import improve
from solvers.pipelines.even_cuts import even_cuts
from solvers.pipelines.offers import likely_counts, run_planner
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.pipelines.recomputation.fitted import fitted
from solvers.pipelines.recomputation.levels import levels_of
from solvers.plan.plan import Plan
from solvers.plan.segments import Place
from solvers.problem.groups import together
from solvers.problem.pinned import pinned_groups, with_pins_together
from solvers.problem.problem import Objective, Pipeline, Problem
from solvers.programs.optional import lacking
from solvers.schedules.assemble import assemble
from solvers.search.monitor import Monitor, Stop
from solvers.search.planner import at_least

LEVELS = 4
"""Of what may run again (`solvers.pipelines.recomputation.levels`), at which the question over pieces is asked, too."""
FIRST_PIECES = 4
"""Pieces a device, about, of the question that gives the first plan."""
MOST_NAMED = 3
"""Kinds of blocks that a note lists."""
COVERED = 0.5
"""Share of the co-location groups that must be in repeated blocks for these to be what the first plan is made of."""

AMPLE = 0.65
"""Share of the memory within which a plan nearly always fits: what is counted before leaves buffers out."""


@dataclass(frozen=True)
class RepeatedBlocks:
    """A pipeline over pieces of the blocks that a model repeats.

    Blocks of one module list are recognised if they are equal operator by operator (`repeated_blocks`). All blocks of
    a family are cut at the same places, where few bytes cross, so that none takes more than one of so many
    ``pieces`` of all work; `GraphPipeline` plans the graph of these and of the operators outside them, a few hundred
    where the model has thousands. Where plans say what runs again it does so with nothing that does, and with all of a
    few levels; what is found is fitted to each device. Its plans are judged on the whole graph, and in the end
    operators move across borders of stages. A heuristic: bounds are those of the whole graph.
    """

    name: ClassVar[str] = "repeated-blocks"
    source: ClassVar[str] = "new here"
    guarantee: ClassVar[str] = "heuristic"

    pieces: int = 128
    evaluations: int = 1000

    def __post_init__(self) -> None:
        at_least(self, {"pieces": 1, "evaluations": 0})

    def unsupported(self, problem: Problem) -> str | None:
        if problem.objective is not Objective.ITERATION:
            return "objectives other than iteration; use auto"
        reason = GraphPipeline().unsupported(problem)
        if reason is None and not repeated_blocks(problem):
            return "models without a block that is repeated operator by operator; use graph-pipeline"
        return reason

    def __call__(self, problem: Problem, monitor: Monitor) -> bool:
        blocks = repeated_blocks(problem)
        smaller = contracted(problem, blocks, self.pieces)
        if smaller is None:
            return False
        levels = levels_of(problem)
        few = levels[:: max(1, -(-len(levels) // LEVELS))]
        coarse = [smaller, *(contracted(level.problem, blocks, self.pieces) for level in few)]
        for number, question in enumerate(coarse):
            if question is not None:
                inner = monitor.for_question(question.question, partial(_whole, problem, question))
                inner.time_limit_s = monitor.remaining_s / (len(coarse) - number)
                with suppress(Stop):
                    run_planner(GraphPipeline(evaluations=self.evaluations), inner)
                monitor.check()
        if self.evaluations and monitor.best is not None:
            monitor.begin("moving operators across the borders of stages")
            improve(problem, monitor)
        monitor.note(f"repeated-blocks: {_described(blocks)}, {len(smaller.question.graph):,} operators in place of"
                     f" {len(problem.graph):,}")  # fmt: skip
        return False


def _whole(problem: Problem, question: Contraction, plan: Plan) -> Plan:
    """A question's plan for the whole graph; where plans say what runs again, fitted to each device."""
    expanded = question.expanded(plan)
    if not problem.recompute_operators or lacking("highspy"):
        return expanded
    return fitted(problem, expanded).plan or expanded


def first_split(problem: Problem, monitor: Monitor) -> None:
    """Offer one split of layers over pieces of repeated blocks, or of the model's order where few blocks repeat: a
    plan for thousands of operators in a fraction of a second."""
    devices = problem.cluster.accelerators
    if not devices or problem.objective is not Objective.ITERATION:
        return
    problem = with_pins_together(problem)
    blocks = repeated_blocks(problem)
    inside = sum(len(block) for family in blocks for block in family.members)
    if inside < COVERED * len(together(problem.graph)):
        blocks = [Blocks("", (run,)) for run in _between_pins(problem)]
    smaller = contracted(problem, blocks, FIRST_PIECES * len(devices))
    if smaller is None:
        return
    condensed = Condensed(smaller.question, ordered=True)
    for count in _likely(smaller.question):
        contracted_at = condensed.at(problem.mini_batch // count, merge_trivial=False)
        may = problem.recompute and problem.has_backward()
        for again in (False, True) if may else (False,):
            shares = (AMPLE,) if may and not again else memory_shares(problem)  # where running again will do, one try
            for share in shares:
                plan = _evenly(smaller.question, contracted_at, count, again, share, monitor.check)
                if plan is None:
                    break
                if problem.pins and (plan := GraphPipeline().keeping_pins(smaller.question, plan)) is None:
                    continue
                if monitor.offer(smaller.expanded(plan)) < math.inf:
                    return


def _between_pins(problem: Problem) -> list[tuple[int, ...]]:
    """The co-location groups in `group_order`, in runs that end where one is pinned, which is in none of them."""
    pinned = {number for numbers in pinned_groups(problem).values() for number in numbers}
    runs: list[list[int]] = [[]]
    for number in group_order(problem):
        if number in pinned:
            runs.append([])
        else:
            runs[-1].append(number)
    return [tuple(run) for run in runs if run]


def _likely(problem: Problem) -> list[int]:
    """The number of micro-batches that seems best with the time to fill and drain, and the most, which need least
    memory."""
    counts = problem.micro_batch_choices()
    return list(dict.fromkeys((likely_counts(problem, counts)[0].micro_batches, counts[-1])))


def _evenly(
    problem: Problem, contracted: Contracted, count: int, again: bool, share: float, check: Callable[[], None]
) -> Plan | None:
    """The topological order cut into one stage an accelerator, of nearly equal loads within a share of the memory, by
    count: None if there is no such cut. again: every stage runs its forward again, and keeps little of it."""
    devices = problem.cluster.accelerators
    stages = min(len(devices), len(contracted))
    if not problem.has_backward() or again:
        in_flight = [1] * stages
    elif problem.pipeline is Pipeline.GPIPE:
        in_flight = [count] * stages
    else:
        in_flight = [min(count, stages - stage) for stage in range(stages)]
    cap = share * min(problem.cluster.devices[device].memory_bytes for device in devices)
    cuts = even_cuts(contracted, range(len(contracted)), stages, in_flight, cap, 0.0, check)
    if not cuts:
        return None
    placement: list[Place] = [()] * len(problem.graph)
    for device, first, end in zip(devices, cuts[:-1], cuts[1:], strict=False):
        for operators in contracted.shape.members[first:end]:
            for operator in operators:
                placement[operator] = (device,)
    try:
        plan = assemble(problem, placement, count)
    except InvalidPlan:
        return None
    return replace(plan, stages=tuple(replace(stage, recompute=again) for stage in plan.stages))


def contracted(problem: Problem, blocks: list[Blocks], count: int) -> Contraction | None:
    """The question over pieces of blocks, none of which takes more than one ``count``-th of all work."""
    most_s = float(group_seconds(problem).sum()) / count
    return contraction(problem, [unit for family in blocks for unit in pieces(problem, family, most_s)])


def _described(blocks: list[Blocks]) -> str:
    named = [
        f"{len(family.members)} equal blocks of {family.container or 'the model'}" for family in blocks[:MOST_NAMED]
    ]
    more = len(blocks) - len(named)
    return ", ".join(named) + (f" and blocks of {more} more kinds" if more else "")
