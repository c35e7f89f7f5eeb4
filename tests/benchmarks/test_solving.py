"""How good plans are and what they cost to find, planner against planner in one run."""

from __future__ import annotations

import pytest

from demo_models import MODELS
from explorer.problems import make_problem
from explorer.settings import Settings
from explorer.tracing import trace_demo
from solvers.problem import Objective
from solvers.result import Status
from solvers.solve import solve
from tests.benchmarks.table import cpu_seconds, show
from tests.solvers.msr_instances import needs_workloads, published, references

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]


@needs_workloads
def test_exact_planner_against_the_published_program():
    """The published values and CPU seconds are those stated with the workloads, on another machine."""
    rows = []
    for name, known in references().items():
        problem = make_problem(published(name), Settings())
        results = {planner: solve(problem, planner) for planner in ("downset-dp", "linear-dp", "equal")}
        exact = results["downset-dp"]
        assert exact.status is Status.OPTIMAL
        assert exact.objective_s * 1e3 == pytest.approx(known["contiguous_optimum"], rel=1e-6)
        seconds = cpu_seconds(lambda p=problem: solve(p, "downset-dp"))
        stated = known["reference_c_plus_plus"]
        reference = stated["cpu_seconds"] if isinstance(stated, dict) else None
        rows.append(
            (
                name,
                known["downsets"],
                f"{exact.objective_s * 1e3:.4f}",
                f"{seconds:.3f}",
                stated if reference is None else f"{reference:.3f}",
                "-" if reference is None else f"{reference / seconds:.1f}x",
                *(f"{results[p].objective_s / exact.objective_s:.3f}" for p in ("linear-dp", "equal")),
            )
        )
    show(
        "Max-load on the published workloads",
        ("workload", "downsets", "optimum, ms", "CPU s", "published program, CPU s", "ratio", "linear-dp / optimum",
         "equal / optimum"),
        rows,
        "numba",
    )  # fmt: skip


def test_default_planner_against_the_baselines_on_the_demos():
    rows = []
    for name in (n for n in MODELS if not n.endswith("-small")):
        workload = trace_demo(name)
        for devices in (2, 4, 8):
            problem = make_problem(workload, Settings(devices=devices, objective=Objective.ITERATION))
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
