"""The answer people get: `auto` beside every member of its family, when its first plan is there, and when it ends.

pytest -m benchmark tests/benchmarks/auto/test_auto.py -s
"""

from __future__ import annotations

import math
import os
from itertools import product

import pytest

from demo_models import MODELS
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.tracing import trace_demo
from solvers.errors import InvalidProblem, UnsupportedProblem
from solvers.evaluation.evaluate import judge
from solvers.plan.plan import Plan
from solvers.plan.result import Progress, Result
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import Objective, Problem
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

GUARD_S = 120.0
LEFT_OUT = {"brute-force", "expert", "auto", "pesto", "joint-cp", "max-load-ip", "max-load-cp", "latency-ip"}
"""An oracle, one that needs a placement, and those that go on until time is up."""
BINDING = 0.6
"""Of the peak of the equal split: a cap that binds."""


def cpu_s() -> float:
    """CPU seconds of this process and of those it has waited for."""
    shown = os.times()
    return shown.user + shown.system + shown.children_user + shown.children_system


def timed_solve(problem: Problem, planner: str) -> tuple[Result, float, float]:
    """The result, CPU seconds to its first plan (inf without one) and in all."""
    first = math.inf
    began = cpu_s()

    def shown(_: Progress, plan: Plan | None) -> None:
        nonlocal first
        if plan is not None and math.isinf(first):
            first = cpu_s() - began

    result = solve(problem, planner, time_limit_s=GUARD_S, on_progress=shown)
    return result, first, cpu_s() - began


def caps(problem: Problem) -> tuple[float | None, ...]:
    """The kind's own memory, and one that binds, where the equal split fits."""
    equal = solve(problem, "equal", time_limit_s=GUARD_S)
    return (None,) if equal.plan is None else (None, BINDING * judge(problem, equal.plan).peak_bytes)


def test_auto_and_its_family() -> None:
    """BENCHMARK_MODELS, BENCHMARK_DEVICES and BENCHMARK_OBJECTIVES (with commas) choose others than all."""
    models = os.environ.get("BENCHMARK_MODELS", ",".join(MODELS)).split(",")
    devices = [int(count) for count in os.environ.get("BENCHMARK_DEVICES", "2,4,8,16").split(",")]
    objectives = [Objective(name) for name in os.environ.get("BENCHMARK_OBJECTIVES", ",".join(Objective)).split(",")]
    rows = []
    for model in models:
        workload = trace_demo(model)
        for objective, count in product(objectives, devices):
            settings = Settings(devices=count, objective=objective, mini_batch=64)
            for cap in caps(make_problem(workload, settings)):
                given = settings if cap is None else Settings(
                    devices=count, objective=objective, mini_batch=64, memory_bytes=cap
                )  # fmt: skip
                rows.append((model, objective.value, count, "binds" if cap else "no", *_row(workload, given)))
                print(*rows[-1], flush=True)
    show(
        "`auto` and the best of its family, normal effort (CPU seconds)",
        ("model", "objective", "GPUs", "cap", "first plan", "best plan (wall s)", "end", "auto, ms", "best member",
         "its value, ms", "its CPU s", "auto behind by"),
        rows,
        "numba",
    )  # fmt: skip


def _row(workload: object, settings: Settings) -> tuple[object, ...]:
    problem = make_problem(workload, settings)  # type: ignore[arg-type]
    solve(problem, time_limit_s=0.2)  # kernels are loaded
    result, first_s, end_s = timed_solve(problem, "auto")
    best_at = next((s.elapsed_s for s in result.trace if s.objective_s <= result.objective_s * (1 + 1e-6)), math.inf)
    answers: list[tuple[float, str, float]] = []
    for name in PLANNERS:
        if name in LEFT_OUT or PLANNERS[name]().unsupported(problem):
            continue
        try:
            other, _, taken_s = timed_solve(problem, name)
        except (UnsupportedProblem, InvalidProblem):
            continue
        answers.append((other.objective_s, name, taken_s))
    best_s, name, taken_s = min(answers)
    behind = result.objective_s / best_s - 1 if math.isfinite(best_s) else 0.0
    return (f"{first_s:.2f}", f"{best_at:.1f}", f"{end_s:.1f}", f"{result.objective_s * 1e3:.4f}", name,
            f"{best_s * 1e3:.4f}", f"{taken_s:.1f}", f"{behind:+.2%}")  # fmt: skip
