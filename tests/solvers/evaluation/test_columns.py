"""Tasks as columns tell of every plan what the slow objects of `tests.oracle` tell, to 1e-9."""

from __future__ import annotations

from collections import Counter

import pytest

from solvers.errors import InvalidPlan
from solvers.evaluation.lower import held_by, lower
from solvers.problem.problem import Execution, Objective, Transfers
from tests.oracle.compare import disagreement
from tests.oracle.random_plans import random_plan
from tests.oracle.well_formed import check_holds, check_tasks

SEEDS = 240


@pytest.mark.parametrize("part", range(8))
def test_times_memory_and_bytes_are_those_of_the_objects(part: int) -> None:
    for seed in range(part * SEEDS // 8, (part + 1) * SEEDS // 8):
        case = random_plan(seed)
        for objective in (Objective.ITERATION, Objective.MAKESPAN) if case else ():
            assert not disagreement(*case, objective), seed


def test_tasks_and_holds_are_well_formed() -> None:
    for seed in range(SEEDS):
        case = random_plan(seed)
        for objective in (Objective.ITERATION, Objective.MAKESPAN) if case else ():
            problem, plan = case
            try:
                lowered = lower(problem, plan, objective)
            except InvalidPlan:
                continue
            check_tasks(lowered)
            if problem.stated_bytes is None:
                check_holds(lowered, held_by(problem, plan, lowered))


def test_the_random_plans_are_of_every_sort() -> None:
    sorts: Counter[object] = Counter()
    for seed in range(SEEDS):
        case = random_plan(seed)
        if case is None:
            continue
        problem, plan = case
        sorts.update([
            problem.transfers, problem.execution, plan.pipeline, f"stated {problem.transfer_s is not None}",
            f"replicas {any(len(stage.devices) > 1 for stage in plan.stages)}",
            f"recompute {any(stage.recompute for stage in plan.stages)}",
            f"mixed {len({stage.micro_batch_size for stage in plan.stages}) > 1}",
            f"parts {any(action.kind == 'I' for row in plan.order for action in row)}",
            f"backward {problem.has_backward()}", f"regions {problem.plain is not None}",
            f"kinds {len({d.kind for d in problem.cluster.devices})}",
        ])  # fmt: skip
    expected = [*Transfers, *Execution, "gpipe", "1f1b", "interleaved", "zero-bubble"]
    either = ("stated", "replicas", "recompute", "mixed", "parts", "backward", "regions")
    expected += [f"{what} {yes}" for what in either for yes in (True, False)] + ["kinds 1", "kinds 2", "kinds 3"]
    assert all(sorts[sort] >= 3 for sort in expected), sorts
