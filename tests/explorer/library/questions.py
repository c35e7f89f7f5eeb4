"""Small questions with answers that a person can check."""

from __future__ import annotations

from explorer.library.question_key import SearchQuestion
from solvers.plan.result import Result
from solvers.planners.baselines import EqualSplit
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from solvers.search.planner import Planner
from tests.instances import problem, training_graph


def chain(seconds: float = 1.0, gpus: int = 2, **options: object) -> Problem:
    """Four operators in a row, forward and backward, each of ``seconds``."""
    graph = training_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=1.0, param_bytes=1.0)
    return problem(graph, [seconds] * 8, gpus, **{"mini_batch": 4, "micro_batches": 2, **options})


def search_question(of: Problem | None = None, planner: Planner | None = None, **more: object) -> SearchQuestion:
    return SearchQuestion(of or chain(), planner or EqualSplit(), **more)  # type: ignore[arg-type]


def answer(to: SearchQuestion) -> Result:
    return solve(to.problem, to.planner, start=to.start, effort=to.effort, time_limit_s=to.time_limit_s, seed=to.seed)
