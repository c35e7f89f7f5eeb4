"""What a search reaches in so many seconds of CPU time: its time limit is measured by the process's own clock.

pytest -m benchmark tests/benchmarks/auto/test_cpu_seconds.py -s
"""

from __future__ import annotations

import os
import time

import pytest

from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.tracing import trace_demo
from solvers.planners.solve import solve
from solvers.problem.problem import Objective
from solvers.search.effort import Effort
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(36000)]

MODELS = "gpt-small,resnet50-small,inception-small,dlrm-small"
OBJECTIVES = {
    "graph-pipeline": Objective.ITERATION,
    "auto": Objective.ITERATION,
    "joint": Objective.MAKESPAN,
}
"""Planners, and what they are asked for."""


def test_what_is_reached_in_cpu_seconds() -> None:
    """BENCHMARK_MODELS, BENCHMARK_DEVICES and BENCHMARK_SECONDS (with commas) choose. Thorough effort, so that it is
    the time that ends a search, if not all is tried before."""
    models = os.environ.get("BENCHMARK_MODELS", MODELS).split(",")
    devices = int(os.environ.get("BENCHMARK_DEVICES", "4"))
    limits_s = [float(limit) for limit in os.environ.get("BENCHMARK_SECONDS", "1,10").split(",")]
    rows = []
    for model in models:
        workload = trace_demo(model)
        for planner, objective in OBJECTIVES.items():
            question = make_problem(workload, Settings(devices=devices, mini_batch=64, objective=objective.value))
            reached = [
                solve(question, planner, time_limit_s=limit, effort=Effort.THOROUGH, clock=time.process_time)
                for limit in limits_s
            ]
            values = [f"{result.objective_s * 1e3:.5g}" for result in reached]
            print(model, planner, *values, flush=True)
            assert all(result.plan is not None for result in reached)
            rows.append((model, planner, objective.value, *values, *(f"{result.runtime_s:.1f}" for result in reached)))
    header = ("model", "planner", "objective", *(f"{limit:g} s" for limit in limits_s))
    show(f"ms, {devices} devices", (*header, *(f"CPU s of {limit:g}" for limit in limits_s)), rows, "numba")
