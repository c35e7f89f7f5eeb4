"""What it takes to tell what a plan costs, as columns and as the objects of the tests' oracle, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.tracing import trace_demo
from solvers.evaluation.evaluate import evaluate, judge
from solvers.evaluation.lower import lower
from solvers.evaluation.simulation import run, simulate
from solvers.plan.plan import Plan
from solvers.planners.check import check
from solvers.planners.solve import solve
from solvers.problem.problem import Objective, Problem
from tests.benchmarks.table import cpu_seconds, show
from tests.oracle.simulate import simulate as simulate_objects

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]


def test_columns_against_objects() -> None:
    workload = trace_demo("gpt")
    rows = []
    for devices, micro_batches, mini_batch in ((4, 16, 64), (8, 64, 128), (32, 512, 512)):
        settings = Settings(devices=devices, micro_batches=micro_batches, mini_batch=mini_batch)
        problem = make_problem(workload, settings)
        plan = solve(problem, "equal").plan
        assert plan is not None
        tasks = len(lower(problem, plan, Objective.ITERATION).tasks.seconds)
        began = time.process_time()
        simulate_objects(problem, plan)
        before = time.process_time() - began
        rows.append((
            f"gpt, {len(plan.stages)} stages, {micro_batches} micro-batches", tasks, f"{before * 1e3:.0f}",
            *(f"{cpu_seconds(work, 7) * 1e3:.1f}" for work in _works(problem, plan)),
            f"{before / cpu_seconds(lambda p=problem, q=plan: simulate(p, q), 7):.0f}x",
        ))  # fmt: skip
    show(
        "Telling what a plan costs, CPU ms",
        ("plan", "tasks", "objects", "times and peaks", "simulate", "judge", "evaluate", "check (simulate, verify)",
         "objects / simulate"),
        rows,
        "numba", "numpy",
    )  # fmt: skip


def _works(problem: Problem, plan: Plan) -> tuple[Callable[[], object], ...]:
    return (
        lambda: run(problem, plan).peak_bytes(),
        lambda: simulate(problem, plan),
        lambda: judge(problem, plan),
        lambda: evaluate(problem, plan),
        lambda: check(problem, plan),
    )
