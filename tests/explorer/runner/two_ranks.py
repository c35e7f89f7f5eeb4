"""Plans small enough to check by hand, as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from solvers.evaluation.evaluate import evaluate
from solvers.formats.plan_json import write_plan
from solvers.plan.plan import Action, Plan, Stage
from solvers.problem.problem import Execution, Objective, Problem
from tests.instances import forward_graph, problem

MODEL = "gpt"


def two_ranks() -> tuple[Problem, Plan]:
    """A chain of four operators of 1 s, two on each of two devices; the second device holds 2 MiB."""
    graph = forward_graph([(0, 1), (1, 2), (2, 3)], 4, nbytes=4.0, param_bytes=float(2**20))
    chain = problem(
        graph, [1.0] * 4, training=False, objective=Objective.MAKESPAN, execution=Execution.CALL, mini_batch=1
    )
    stages = (Stage((0, 1), (0,)), Stage((2, 3), (1,)))
    return chain, Plan(stages, ((Action(0, "F"),), (Action(1, "F"),)))


def two_rank_text(reference: str = MODEL, change: Callable[[Problem], Problem] = lambda problem: problem) -> str:
    chain, plan = two_ranks()
    return write_plan(change(chain), plan, reference=reference)


def predicted_s() -> float:
    return evaluate(*two_ranks()).makespan_s


def write_two_ranks(
    folder: Path, reference: str = MODEL, change: Callable[[Problem], Problem] = lambda problem: problem
) -> Path:
    path = folder / "plan.json"
    path.write_text(two_rank_text(reference, change))
    return path
