"""How far `auto`'s plans without replicas are from the bound of an iteration, model by model.

pytest -m benchmark tests/benchmarks/auto/test_iteration_bounds.py -s
"""

from __future__ import annotations

import os
import time

import pytest

from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.bounds.combinatorial import bound_with_s, lower_bound_s
from solvers.bounds.iteration import iteration_bound_s
from solvers.planners.solve import solve
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

MODELS = "resnet50,inception,nasnet,gpt,gnmt,multimodal"
SAMPLES_PER_DEVICE = 16


def test_gaps() -> None:
    """H100, links of 25 GB/s, no replicas. *Without cuts*: what is proved without `solvers.bounds.chain`.
    BENCHMARK_MODELS and BENCHMARK_DEVICES (with commas) choose others."""
    rows, gaps = [], []
    for model in os.environ.get("BENCHMARK_MODELS", MODELS).split(","):
        workload = load(model)
        for devices in map(int, os.environ.get("BENCHMARK_DEVICES", "2,4,8,16").split(",")):
            problem = make_problem(workload, Settings(devices=devices, mini_batch=SAMPLES_PER_DEVICE * devices))
            counts = problem.micro_batch_choices()
            plain_s = min(iteration_bound_s(problem, (count,), bound_with_s(problem, count)) for count in counts)
            began = time.process_time()
            bound_s = lower_bound_s(problem)
            took_s = time.process_time() - began
            best_s = solve(problem, time_limit_s=60.0).objective_s
            assert plain_s * (1 - 1e-9) <= bound_s <= best_s * (1 + 1e-9)
            gaps.append((1 - plain_s / best_s, 1 - bound_s / best_s))
            rows.append((model, devices, f"{best_s * 1e3:.2f}", *(f"{gap:.1%}" for gap in gaps[-1]), f"{took_s:.2f}"))
            print(*rows[-1], flush=True)
    mean = [sum(column) / len(gaps) for column in zip(*gaps, strict=True)]
    rows.append(("mean", "", "", *(f"{gap:.1%}" for gap in mean), ""))
    show("Distance from the bound", ("model", "GPUs", "auto, ms", "without cuts", "gap", "CPU s of the bound"), rows,
         "numpy")  # fmt: skip
