"""Tasks as columns against the objects they came from, on ten thousand random plans."""

from __future__ import annotations

from collections import Counter

import pytest

from solvers.problem.problem import Objective
from tests.benchmarks.table import show
from tests.oracle.compare import disagreement
from tests.oracle.random_plans import random_plan

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]


def test_ten_thousand_random_plans_are_simulated_alike() -> None:
    compared: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    for seed in range(10_250):
        case = random_plan(seed)
        for objective in (Objective.ITERATION, Objective.MAKESPAN) if case else ():
            problem, plan = case
            sort = str(problem.transfers), f"{objective}, {problem.execution}" if objective == "makespan" else objective
            compared[sort] += 1
            wrong[sort] += bool(disagreement(problem, plan, objective))
    rows = [(*sort, count, wrong[sort]) for sort, count in sorted(compared.items())]
    show(
        "Columns against objects: times, memory curves and bytes to 1e-9 on random plans",
        ("transfers", "pass", "compared", "told differently"),
        rows,
    )
    assert sum(compared.values()) >= 10_000
    assert not sum(wrong.values())
