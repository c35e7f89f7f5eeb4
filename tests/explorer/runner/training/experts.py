"""Plans of a small mixture whose experts are divided over groups of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.plan.plan import Plan
from solvers.problem.problem import Problem
from tests.explorer.runner.engine.divided_plans import by_chance as divided
from tests.explorer.runner.plans import placed, problem_of

MODULE = "tests.explorer.runner.model.mixtures:"
SAMPLES = 16


@dataclass(frozen=True)
class Grid:
    """members: of each group, which divide samples and experts, or (tensors) matrices; stages; data: replicas of
    each stage. more: said of the model's example."""

    members: int
    stages: int = 1
    data: int = 1
    tensors: bool = False
    more: str = ""

    @property
    def processes(self) -> int:
        return self.members * self.stages * self.data

    def reference(self, model: str) -> str:
        axis = "tensor" if self.tensors else "expert"
        return f"{MODULE}{model}{f',{axis}-parallel={self.members}' * (self.members > 1)}{self.more}"

    def plan(self, model: str, mini_batch: int = SAMPLES, **settings: Any) -> tuple[Problem, Plan]:
        problem = problem_of(
            self.reference(model), devices=self.processes, devices_per_node=self.processes, mini_batch=mini_batch,
            micro_batches=2, max_replicas=self.data, **settings,
        )  # fmt: skip
        forward = [o for o in problem.graph.operators if o.forward_of is None]
        second = min(k for k, o in enumerate(forward) if o.module_path.startswith("blocks.1"))
        halves = [int(self.stages > 1 and k >= second) for k in range(len(forward))]
        places = [tuple(half * self.data + replica for replica in range(self.data)) for half in halves]
        return problem, placed(problem, places, 2)


def by_chance(model: str, degree: int, seed: int, micro_batches: int) -> tuple[str, Problem, Plan]:
    """Matrices and rows of tokens divided by chance."""
    workload = divided(f"{MODULE}{model}", degree, seed)
    assert workload is not None
    settings = Settings(devices=degree, devices_per_node=degree, mini_batch=8, micro_batches=micro_batches)
    problem = make_problem(workload, settings)
    count = sum(operator.forward_of is None for operator in problem.graph.operators)
    return workload.reference, problem, placed(problem, [0] * count, micro_batches)
