"""How long after a cancel the best plan is back, for every planner on a large workload."""

from __future__ import annotations

import time

import pytest

from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.formats.msr2020 import read_msr2020
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity, Objective
from tests.benchmarks.table import show
from tests.solvers.msr_instances import FOLDER, needs_workloads, published

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

AFTER_S = (0.3, 3.0)
"""When the cancel comes: early, often in preparation, and in the midst of the search."""


class Cancel:
    """A stop signal that goes up some seconds after the start, and when it was first seen."""

    def __init__(self, after_s: float) -> None:
        self.due = time.perf_counter() + after_s

    def __call__(self) -> bool:
        return time.perf_counter() >= self.due

    def late_s(self) -> float:
        """Seconds since it went up; negative if the planner had ended before."""
        return time.perf_counter() - self.due


@needs_workloads
def test_from_a_cancel_to_the_best_plan():
    largest = published("operator-bert_L-12_training")
    path = FOLDER / "latency" / "operator-bert_l-6_inference.json"
    latency = read_msr2020(path.read_text(), str(path))
    problems = {
        "max-load, acyclic": make_problem(largest, Settings()),
        "max-load, any set": make_problem(largest, Settings(contiguity=Contiguity.NONE)),
        "latency": make_problem(latency, Settings(objective=Objective.MAKESPAN)),
    }
    rows = []
    for name, planner in PLANNERS.items():
        for kind, problem in problems.items():
            if planner().unsupported(problem):
                continue
            cells = []
            for after_s in AFTER_S:
                cancel = Cancel(after_s)
                result = solve(problem, name, should_stop=cancel, time_limit_s=60)
                late_s = cancel.late_s()
                cells.append("ended before" if late_s < 0 else f"{late_s:.2f} ({result.status.value})")
            rows.append((name, kind, *cells))
            print(*rows[-1], flush=True)
    show(
        "Seconds from a cancel to the result, verification included (2,012 operators; latency: 418)",
        ("planner", "problem", *(f"cancelled after {after_s:g} s" for after_s in AFTER_S)),
        rows,
        "numba",
        "highspy",
        "ortools",
    )  # fmt: skip
