"""The exact dynamic program on the published workloads: values, CPU time, every variant.

MSR2020_DP may name the published program's binary (msr-fiddle/dnn-partitioning, throughput-dp); it
is then run here, otherwise its CPU seconds as stated with the workloads are used.
"""

from __future__ import annotations

import math
import os
import resource
import statistics
import subprocess
import time

import pytest

from solvers.formats.msr2020 import read_msr2020
from solvers.plan.result import Result, Status
from solvers.planners.solve import solve
from solvers.planners.warm import warm
from solvers.problem.problem import Pipeline, Problem, Transfers
from tests.benchmarks.papers.drawing import Line, plot, save
from tests.benchmarks.table import show
from tests.solvers.msr_instances import FOLDER, as_problem, needs_workloads, references

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

PUBLISHED_PROGRAM = os.environ.get("MSR2020_DP", "")
RUNS = 3
PROGRAM_LIMIT_S = 600


def fresh(name: str, **options: object) -> Problem:
    """The workload read again, so that nothing derived from it earlier is at hand."""
    path = FOLDER / "throughput" / f"{name}.json"
    return as_problem(read_msr2020(path.read_text(), str(path)), **options)


def solved(name: str, planner: str = "downset-dp", **options: object) -> tuple[Result, float]:
    """The result, and the median CPU seconds of solving problems that have just been read."""
    taken = []
    for _ in range(RUNS):
        problem = fresh(name, **options)
        before = time.process_time()
        result = solve(problem, planner, time_limit_s=600)
        taken.append(time.process_time() - before)
    return result, statistics.median(taken)


def published_cpu_s(name: str) -> float | None:
    """CPU seconds of the published program, or None if it did not finish."""
    if not PUBLISHED_PROGRAM:
        stated = references()[name]["reference_c_plus_plus"]
        return stated["cpu_seconds"] if isinstance(stated, dict) else None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (FOLDER / "throughput" / f"{name}.json").open() as workload:
        try:
            subprocess.run(
                [PUBLISHED_PROGRAM], stdin=workload, capture_output=True, check=True, timeout=PROGRAM_LIMIT_S
            )
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):  # or out of memory
            return None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@needs_workloads
def test_values_and_cpu_time_against_the_published_program():
    warm()
    rows, ratios, slow = [], [], []
    for name, known in references().items():
        exact, seconds = solved(name)
        linear, linear_seconds = solved(name, "linear-dp")
        assert exact.status is Status.OPTIMAL
        assert exact.objective_s * 1e3 == pytest.approx(known["contiguous_optimum"], rel=1e-6)
        program_s = published_cpu_s(name)
        if program_s is not None and program_s > 1:
            ratios.append(program_s / seconds)
            slow.append(name.removeprefix("operator-").removeprefix("layer-"))
        rows.append(
            (
                name,
                known["operators"],
                known["downsets"],
                f"{exact.objective_s * 1e3:.4f}",
                f"{known['contiguous_optimum']:.4f}",
                f"{seconds:.3f}",
                "not finished" if program_s is None else f"{program_s:.3f}",
                "-" if program_s is None else f"{program_s / seconds:.1f}x",
                f"{linear.objective_s / exact.objective_s:.4f}",
                f"{linear_seconds:.3f}",
            )
        )
    where = "run here" if PUBLISHED_PROGRAM else "as stated with the workloads"
    show(
        f"Contiguous max-load, exact (published program: {where})",
        ("workload", "operators", "downsets", "value, ms", "reference, ms", "CPU s", "published program, CPU s",
         "ratio", "linear-dp / optimum", "linear-dp, CPU s"),
        rows,
        "numba",
    )  # fmt: skip
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"\nWhere the published program takes more than a second: least {min(ratios):.1f}x, mean {mean:.1f}x")
        title = "Contiguous max-load: CPU seconds of the published program over ours"
        save(
            "tarnawski-speed",
            plot(title, "workloads on which it takes more than a second", slow, [Line("times", ratios)]),
        )


VARIANTS: dict[str, dict[str, object]] = {
    "overlapped": {"transfers": Transfers.LANE},
    "duplex": {"transfers": Transfers.DUPLEX},
    "gpipe": {"pipeline": Pipeline.GPIPE},
    "2 replicas": {"max_replicas": 2},
    "3 replicas, gpipe, duplex": {"max_replicas": 3, "pipeline": Pipeline.GPIPE, "transfers": Transfers.DUPLEX},
}


@needs_workloads
def test_every_variant_of_max_load():
    warm()
    rows = []
    for name, known in references().items():
        cells = []
        for options in VARIANTS.values():
            result, seconds = solved(name, **options)
            value = f"{result.objective_s * 1e3:.4f}"
            proved = "" if result.status is Status.OPTIMAL else f" (gap {result.gap:.2%})"
            cells.append(f"{value}{proved} in {seconds:.2f} s")
        rows.append((name, f"{known['contiguous_optimum']:.4f}", *cells))
    show(
        "Contiguous max-load in its variants, ms and CPU seconds",
        ("workload", "plain", *VARIANTS),
        rows,
        "numba",
    )
