"""How good plans are and what they cost to find, planner against planner in one run."""

from __future__ import annotations

import pytest

from demo_models import MODELS
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.tracing import trace_demo
from solvers.planners.solve import solve
from solvers.problem.problem import Objective
from tests.benchmarks.table import cpu_seconds, show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]


def test_default_planner_against_the_baselines_on_the_demos():
    rows = []
    for name in (n for n in MODELS if not n.endswith("-small")):
        workload = trace_demo(name)
        for devices in (2, 4, 8):
            settings = Settings(devices=devices, objective=Objective.ITERATION, mini_batch=16 * devices)
            problem = make_problem(workload, settings)
            best = solve(problem, "auto", time_limit_s=20)
            others = {p: solve(problem, p, time_limit_s=20) for p in ("linear-dp", "equal", "single")}
            seconds = cpu_seconds(lambda p=problem: solve(p, "auto", time_limit_s=20), 1)
            rows.append(
                (
                    name,
                    len(problem.graph),
                    devices,
                    f"{best.objective_s * 1e3:.1f}",
                    f"{best.gap:.1%}",
                    f"{seconds:.2f}",
                    *(f"{other.objective_s / best.objective_s:.2f}" for other in others.values()),
                )
            )
    show(
        "Iteration time of the demos (H100-80GB, fp32, 25 GB/s links, mini-batch 16 x devices, roofline estimate)",
        ("model", "operators", "devices", "auto, ms", "gap", "CPU s", "linear-dp / auto", "equal / auto",
         "single / auto"),
        rows,
        "numba",
        "torch",
    )  # fmt: skip
