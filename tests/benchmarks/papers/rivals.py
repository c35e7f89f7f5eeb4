"""Both sides of GraphPipe's experiments: stages that form a DAG, and the same stages one after the other."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

from solvers.contiguous.sequential import sequential_problems
from solvers.evaluation.simulation import run
from solvers.pipelines.planners.data_parallel import DataParallel
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.pipelines.planners.pipedream_iter import PipeDreamIteration
from solvers.pipelines.planners.pipedream_optimizer import PipeDreamOptimizer
from solvers.plan.plan import Plan
from solvers.planners.solve import solve
from solvers.problem.graph import topological_order
from solvers.problem.problem import Problem
from solvers.schedules.ordering.orders import stage_successors
from solvers.search.planner import Planner

LIMIT_S = 300.0
"""A backstop: what a search may do is stated in evaluations or orders."""
SEARCH = GraphPipeline(evaluations=int(os.environ.get("BENCHMARK_EVALUATIONS", "150")), starts=2)
PUBLISHED = GraphPipeline(mode="paper")
SEQUENCE = PipeDreamIteration(orders=2)


@dataclass(frozen=True, slots=True)
class Best:
    """The best plan of some planners on some problems that differ only in their sequence; None and inf without one."""

    problem: Problem
    plan: Plan | None
    seconds: float
    cpu_s: float

    @property
    def milliseconds(self) -> str:
        return "-" if self.plan is None else f"{self.seconds * 1e3:,.1f}"

    @property
    def depth(self) -> int:
        """Stages on the longest path."""
        if self.plan is None:
            return 0
        after = stage_successors(self.problem, [stage.operators for stage in self.plan.stages])
        longest = [1] * len(after)
        for stage in reversed(topological_order([sorted(targets) for targets in after])):
            longest[stage] = 1 + max((longest[target] for target in after[stage]), default=0)
        return max(longest)

    @property
    def shape(self) -> str:
        """Stages, depth, and samples of a micro-batch on one replica of the stage that has most of them: "8/4, b=2"."""
        if self.plan is None:
            return "-"
        sizes = sorted({stage.micro_batch_size // len(stage.devices) for stage in self.plan.stages})
        return f"{len(self.plan.stages)}/{self.depth}, b={','.join(map(str, sizes))}"

    @property
    def smallest(self) -> int:
        """Samples of a micro-batch on one replica of the stage that has the fewest."""
        return 1 if self.plan is None else min(s.micro_batch_size // len(s.devices) for s in self.plan.stages)

    @property
    def in_flight(self) -> int:
        return 0 if self.plan is None else max(stage.in_flight for stage in self.plan.stages)

    @property
    def peak_bytes(self) -> float:
        return 0.0 if self.plan is None else float(run(self.problem, self.plan).peak_bytes().max())


def best(problems: Sequence[Problem], *planners: Planner) -> Best:
    """Of all these planners on all these problems, judged by the one simulator."""
    fastest = Best(problems[0], None, math.inf, 0.0)
    before = time.process_time()
    for problem in problems:
        for planner in planners:
            if planner.unsupported(problem) is None:
                result = solve(problem, planner, time_limit_s=LIMIT_S)
                if result.objective_s < fastest.seconds:
                    fastest = Best(problem, result.plan, result.objective_s, 0.0)
    return Best(fastest.problem, fastest.plan, fastest.seconds, time.process_time() - before)


@dataclass(frozen=True, slots=True)
class Pair:
    """A DAG of stages, and the best sequence of stages."""

    graph: Best
    sequence: Best

    @property
    def gain(self) -> float:
        if self.graph.plan is None or self.sequence.plan is None:
            return math.nan
        return self.sequence.seconds / self.graph.seconds


def published(problem: Problem) -> Pair:
    """The published search on the graph, and on its operators in two linear orders, as is PipeDream's optimizer."""
    sequences = sequential_problems(problem, 2)
    return Pair(best([problem], PUBLISHED), best(sequences, PUBLISHED, PipeDreamOptimizer()))


def searched(problem: Problem) -> Pair:
    """Our search of graphs, and the best sequence of `pipedream-iter` over two orders or of our search over one."""
    sequences = sequential_problems(problem, 2)
    one, two = best(sequences, SEQUENCE), best(sequences[:1], SEARCH)
    better = one if one.seconds <= two.seconds else two
    return Pair(best([problem], SEARCH), Best(better.problem, better.plan, better.seconds, one.cpu_s + two.cpu_s))


def data_parallel(problem: Problem) -> Best:
    return best([problem], DataParallel())
