"""Strong scaling: every demo model on 1 to 16 devices with the mini-batch held; a device more may never cost time.

pytest -m benchmark tests/benchmarks/auto/test_strong_scaling.py -s
"""

from __future__ import annotations

import os
import time

import pytest

from demo_models import MODELS
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.tracing import trace_demo
from solvers.planners.solve import solve
from solvers.search.effort import Effort
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(36000)]

GUARD_S = 3600.0
"""A search ends by its count of work; this is a safety limit for one that does not."""
EXCEPTION = 1e-9
"""Relative loss by a device more from which on it is an exception."""


def test_a_device_more_is_never_worse() -> None:
    """BENCHMARK_MODELS, BENCHMARK_DEVICES (with commas), BENCHMARK_EFFORT and BENCHMARK_REPLICATE (0 or 1) choose."""
    models = os.environ.get("BENCHMARK_MODELS", ",".join(MODELS)).split(",")
    counts = [int(count) for count in os.environ.get("BENCHMARK_DEVICES", "1,2,3,4,5,6,7,8,10,12,14,16").split(",")]
    effort = Effort(os.environ.get("BENCHMARK_EFFORT", "normal"))
    replicate = os.environ.get("BENCHMARK_REPLICATE") == "1"
    rows, exceptions = [], []
    for model in models:
        workload = trace_demo(model)
        values_s: dict[int, float] = {}
        taken_s = 0.0
        for count in counts:
            settings = Settings(devices=count, mini_batch=64, max_replicas=count if replicate else 1)
            problem = make_problem(workload, settings)
            before_s = time.process_time()
            result = solve(problem, time_limit_s=GUARD_S, effort=effort)
            own_s = time.process_time() - before_s
            taken_s += own_s
            least_s = min(values_s.values(), default=float("inf"))
            if result.objective_s > least_s * (1 + EXCEPTION):
                exceptions.append((model, count, result.objective_s / least_s - 1))
            values_s[count] = result.objective_s
            by = next((s.member for s in reversed(result.trace) if s.objective_s <= result.objective_s), "")
            print(model, count, f"{result.objective_s * 1e3:.6f} ms", f"bound {result.bound_s * 1e3:.4f}",
                  f"{own_s:.1f} CPU s", by, *exceptions[-1:], flush=True)  # fmt: skip
        rows.append((model, *(f"{value * 1e3:.4g}" for value in values_s.values()), f"{taken_s:.0f}"))
    header = ("model", *(f"{count}" for count in counts), "CPU s")
    show(f"Iteration, ms, by devices, {effort.value} effort", header, rows, "numba")
    assert not exceptions, exceptions
