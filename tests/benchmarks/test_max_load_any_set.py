"""Max-load without contiguity: value and proved gap within 10 s and 60 s, against the best known values."""

from __future__ import annotations

import json
import os
import time

import pytest

from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.plan.result import Result
from solvers.planners.solve import solve
from solvers.problem.problem import Contiguity
from solvers.search.effort import Effort
from tests.benchmarks.table import show
from tests.oracle.independent import max_load_ms
from tests.solvers.msr_instances import FOLDER, needs_workloads, published, references

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

LIMITS_S = (10.0, 60.0)
TOLERANCE = 1e-6
"""Published values are rounded to four digits."""


def at(result: Result, seconds: float) -> tuple[float, float]:
    """(objective, bound) of a solve as they were after some seconds."""
    steps = [step for step in result.trace if step.elapsed_s <= seconds]
    return steps[-1].objective_s, steps[-1].bound_s


@needs_workloads
def test_any_set_within_ten_and_sixty_seconds():
    """BENCHMARK_WORKLOADS (names, comma-separated), BENCHMARK_PLANNER and BENCHMARK_EFFORT choose others than all, auto
    and thorough."""
    chosen = os.environ.get("BENCHMARK_WORKLOADS", ",".join(references())).split(",")
    planner = os.environ.get("BENCHMARK_PLANNER", "auto")
    effort = Effort(os.environ.get("BENCHMARK_EFFORT", "thorough"))
    rows = []
    for name in chosen:
        known = references()[name]["noncontiguous"]
        problem = make_problem(published(name), Settings(contiguity=Contiguity.NONE))
        before = time.process_time()
        result = solve(problem, planner, time_limit_s=LIMITS_S[-1], effort=effort)
        seconds = time.process_time() - before
        file = json.loads((FOLDER / "throughput" / f"{name}.json").read_text())
        assert result.plan is not None
        checked_ms = max_load_ms(file, result.plan)
        assert checked_ms == pytest.approx(result.objective_s * 1e3, rel=1e-9)
        assert result.bound_s * 1e3 <= known["best_known"] * (1 + TOLERANCE)
        cells = []
        for limit in LIMITS_S:
            value_s, bound_s = at(result, limit)
            cells += [f"{value_s * 1e3:.4f}", f"{round(value_s * 1e3 / known['best_known'] - 1, 4) + 0.0:+.2%}",
                      f"{1 - bound_s / value_s:.2%}"]  # fmt: skip
        contiguous = references()[name]["contiguous_optimum"]
        rows.append(
            (name, f"{contiguous:.4f}", f"{known['best_known']:.4f}", f"{known['lower_bound']:.4f}", *cells,
             f"{result.bound_s * 1e3:.4f}", result.status.value, f"{result.runtime_s:.1f}", f"{seconds:.1f}")
        )  # fmt: skip
        print(*rows[-1], flush=True)
    show(
        "Max-load of any set of operators per device",
        ("workload", "contiguous optimum, ms", "best known, ms", "known bound, ms", "10 s: value, ms",
         "to best known", "gap", "60 s: value, ms", "to best known", "gap", "our bound, ms", "status", "wall s",
         "CPU s of this process"),
        rows,
        "numba",
        "highspy",
        "ortools",
    )  # fmt: skip
