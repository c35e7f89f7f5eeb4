"""Graph pipelines of tiny graphs against the enumeration of all DAGs of stages."""

from __future__ import annotations

import math
import os
import statistics

import pytest

from solvers.bounds.combinatorial import lower_bound_s
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.pipelines.planners.pipedream_iter import PipeDreamIteration
from solvers.pipelines.planners.piper import Piper
from solvers.planners.solve import solve
from tests.benchmarks.table import show
from tests.oracle.stage_oracle import best_by_force, random_pipeline_problem

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

GRAPHS = 200
PLANNERS = {
    "graph-pipeline": GraphPipeline(),
    "without local search": GraphPipeline(evaluations=0),
    "published search": GraphPipeline(mode="paper"),
    "pipedream-iter": PipeDreamIteration(),
    "piper": Piper(),
}
CHOSEN = os.environ.get("BENCHMARK_PLANNERS", ",".join(PLANNERS)).split(",")
"""Some of them, by name."""


def test_distance_from_the_best_of_all_dags_of_stages():
    """Random graphs of 3 to 7 operators, most of them not series-parallel, on 2 to 4 devices, some capped. The
    enumeration has one slack of 0 to 2 for all stages and a device for each; searches may do better."""
    excess: dict[str, list[float]] = {name: [] for name in CHOSEN}
    missed = dict.fromkeys(CHOSEN, 0)
    gaps = []
    for seed in range(GRAPHS):
        problem = random_pipeline_problem(seed)
        best = best_by_force(problem)
        if math.isfinite(best):
            gaps.append(1 - lower_bound_s(problem) / best)
        for name in CHOSEN:
            seconds = solve(problem, PLANNERS[name]).objective_s
            if math.isinf(seconds) != math.isinf(best):
                missed[name] += 1
            elif math.isfinite(best):
                excess[name].append(seconds / best - 1)
        if seed % 20 == 19:
            print(seed + 1, f"{statistics.mean(excess[CHOSEN[0]]):+.2%}", flush=True)
    rows = [
        (name, f"{statistics.mean(shares):+.2%}", f"{statistics.mean(max(0.0, e) for e in shares):.2%}",
         f"{max(shares):+.2%}", sum(e > 1e-9 for e in shares), missed[name])
        for name, shares in excess.items()
    ]  # fmt: skip
    assert min(gaps) >= -1e-9
    print(f"Bound below the best: {statistics.mean(gaps):.1%} on average, at most {max(gaps):.1%}")
    show(
        f"Distance from the best of all DAGs of stages, {GRAPHS} random graphs",
        ("planner", "mean", "mean, better counted as equal", "worst", "graphs above", "plan only on one side"),
        rows, "numpy", "numba",
    )  # fmt: skip
