"""`auto` beside its members where devices are distinguished: pins, groups kept together, caps by device and kinds.

pytest -m benchmark tests/benchmarks/auto/test_constraints.py -s
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter

import pytest

from explorer.question.loading import load
from solvers.planners.registry import PLANNERS
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from solvers.search.effort import Effort
from tests.benchmarks.table import show
from tests.random_constraints import constrained

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(14400)]

MODELS = "gpt-small,bert-small,resnet50-small,multimodal-small,moe-small,dlrm-small"
SETS = 200
MEMBERS = ("equal", "layer-split", "single", "linear-dp", "interleaved", "graph-pipeline", "tied-ends", "annealing",
           "local-search")  # fmt: skip
"""Those that `auto` runs on an iteration of so few operators, each with the options that it gives them, which are the
default ones."""
GUARD_S = 600.0
WORST = 1e-3


def alone(problem: Problem) -> dict[str, float]:
    """The objective of every member that takes the question, in seconds; inf without a plan."""
    able = [name for name in MEMBERS if PLANNERS[name]().unsupported(problem) is None]
    return {name: solve(problem, name, effort=Effort.QUICK, time_limit_s=GUARD_S).objective_s for name in able}


def test_auto_is_not_behind_its_members() -> None:
    """BENCHMARK_MODELS (with commas) and BENCHMARK_SETS choose others than all: every set is of the next model."""
    models = os.environ.get("BENCHMARK_MODELS", MODELS).split(",")
    workloads = [load(model) for model in models]
    behind: dict[str, list[float]] = {model: [] for model in models}
    best_of: Counter[str] = Counter()
    none: Counter[str] = Counter()
    taken_s: dict[str, list[float]] = {model: [] for model in models}
    late = []
    for seed in range(int(os.environ.get("BENCHMARK_SETS", SETS))):
        model = models[seed % len(models)]
        problem, words = constrained(workloads[seed % len(models)], seed)
        began = time.process_time()
        auto_s = solve(problem, effort=Effort.QUICK, time_limit_s=GUARD_S).objective_s
        taken_s[model].append(time.process_time() - began)
        members_s = alone(problem)
        name, best_s = min(members_s.items(), key=lambda one: one[1])
        if math.isinf(auto_s) and math.isinf(best_s):
            none[model] += 1
            print(f"{seed} {model}: met by none: {words}", flush=True)
            continue
        behind[model].append(auto_s / best_s - 1)
        best_of[name if auto_s >= best_s * (1 - WORST) else "none: auto is ahead"] += 1
        print(f"{seed} {model}: {auto_s * 1e3:.4f} ms, {name} {best_s * 1e3:.4f} ms, {behind[model][-1]:+.3%},"
              f" {taken_s[model][-1]:.1f} CPU s: {words}", flush=True)  # fmt: skip
        if behind[model][-1] > WORST:
            late.append((seed, model, name, behind[model][-1]))
    rows = [
        (model, len(behind[model]), none[model], f"{max(behind[model], default=0.0):+.3%}",
         f"{sum(gap < -WORST for gap in behind[model])}", f"{min(behind[model], default=0.0):+.1%}",
         f"{sum(taken_s[model]) / max(len(taken_s[model]), 1):.1f}")
        for model in models
    ]  # fmt: skip
    show(
        "`auto` and the best of its members alone, where devices are told apart, quick effort",
        ("model", "sets", "met by none", "auto behind by at most", "sets where it is ahead", "ahead by at most",
         "CPU s of auto"),
        rows,
        "numba",
    )  # fmt: skip
    print(f"\nBest member: {dict(best_of)}")
    assert not late
