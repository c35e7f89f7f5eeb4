"""Clusters of up to 16,384 devices: CPU seconds of `plan` to its first plan and to its end, and memory.

pytest -m benchmark tests/benchmarks/auto/test_many_devices.py -s
GRAPH=llama-70b.json pytest -m benchmark tests/benchmarks/auto/test_many_devices.py -s
EFFORT=normal LIMIT_S=300 BENCHMARK_PICTURES=docs/papers \\
    pytest -m benchmark tests/benchmarks/auto/test_many_devices.py -s
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from solvers.plan.result import StopReason
from tests.benchmarks.papers.drawing import Line, plot, save
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

DEVICES = tuple(map(int, os.environ.get("DEVICES", "8 64 256 1024 4096 16384").split()))
EFFORT = os.environ.get("EFFORT", "quick")
LIMIT_S = float(os.environ.get("LIMIT_S", "60"))
"""Seconds of the clock in which a search ends."""
MOST_BYTES = 14 * 2**30
"""Of address space: a search that wants more ends there."""

QUESTION = f"""
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, ({MOST_BYTES}, {MOST_BYTES}))
from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.planners.solve import solve
from solvers.problem.problem import Precision
from solvers.search.effort import Effort

workload, devices = load(sys.argv[1], dtype=None if sys.argv[1].endswith(".json") else "bf16"), int(sys.argv[2])
began, first = time.process_time(), []

def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000

def told(step, plan):
    if plan is not None and not first:
        first.extend((time.process_time() - began, step.objective_s, megabytes()))

settings = Settings(
    devices=devices, device_kind="H100-80GB", devices_per_node=8, bandwidth_bytes_per_s=450e9,
    node_bandwidth_bytes_per_s=50e9, precision=Precision.MIXED, recompute=True, max_replicas=devices,
    mini_batch=max(64, devices),
)
result = solve(make_problem(workload, settings), effort=Effort("{EFFORT}"), time_limit_s={LIMIT_S}, on_progress=told)
end = (time.process_time() - began, result.objective_s, result.bound_s, megabytes(), result.stop_reason)
print(json.dumps([*(first or [None] * 3), *end]))
"""


@pytest.mark.parametrize("model", ["llama-small", "llama", os.environ.get("GRAPH")])
def test_first_plan_and_end_on_many_devices(model: str | None):
    """A new process each, from a graph that is traced; kernels are loaded from disk, and compiled before."""
    if model is None:
        pytest.skip("GRAPH names no graph.json of a large model")
    rows, lines = [], {name: [] for name in ("first plan, CPU s", "end, CPU s", "memory, 100 MB")}
    for devices in DEVICES:
        command = [sys.executable, "-c", QUESTION, model, str(devices)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            rows.append((f"{devices:,}", "-", "-", "-", "-", "-", "-", "-", ended.stderr.splitlines()[-1][:60]))
            shown = [None, None, None]
        else:
            first_s, first_at_s, first_mb, end_s, objective_s, bound_s, mb, stop = json.loads(ended.stdout)
            rows.append((f"{devices:,}", _short(first_s), _short(first_at_s), _short(first_mb), _short(end_s),
                         _short(objective_s), _short(bound_s), _short(mb), stop))  # fmt: skip
            shown = [first_s, end_s if stop == StopReason.FINISHED else None, mb / 100]
        for values, value in zip(lines.values(), shown, strict=True):
            values.append(value)
        print(model, *rows[-1], flush=True)
    header = ("H100", "first plan, CPU s", "its s", "MB then", "end, CPU s", "answer, s", "bound, s", "MB", "ended")
    show(f"{model} on many devices, {EFFORT} effort", header, rows, "numpy", "numba")
    name = os.path.basename(model).partition(".")[0]
    places = [f"{devices:,}" for devices in DEVICES]
    drawn = plot(f"{name}: from the question to an answer", "H100", places, [Line(*line) for line in lines.items()])
    save(f"many-devices-{name}", drawn)


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:,.0f}"
