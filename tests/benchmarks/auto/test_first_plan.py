"""Models of thousands of operators: when `auto` has a first plan, and what it has in the end.

placement-explorer trace hf:FOLDER --dtype bf16 --sequence 4096 --output llama-70b.json
GRAPH=llama-70b.json pytest -m benchmark tests/benchmarks/auto/test_first_plan.py -s
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]

QUESTION = """
import json, sys, time
from explorer.question.questions import Question
from explorer.question.loading import load
from explorer.question.problems import make_problem
from solvers.planners.solve import solve
from solvers.search.effort import Effort

graph, devices, effort = sys.argv[1:]
question = Question(devices=int(devices), device_kind="H100-80GB", recompute=True)
problem = make_problem(load(graph), question)
began, first = time.process_time(), []

def told(step, plan):
    if plan is not None and not first:
        first.extend((time.process_time() - began, step.elapsed_s, step.objective_s))

result = solve(problem, effort=Effort(effort), on_progress=told)
cpu_s = time.process_time() - began
print(json.dumps([len(problem.graph), *first, result.objective_s, result.bound_s, cpu_s, result.stop_reason]))
"""


@pytest.mark.parametrize("effort", ["quick", "normal"])
def test_first_and_last_plan_of_a_large_model(effort):
    """A new process each: kernels are loaded, not compiled, on the way to the first plan."""
    graph = os.environ.get("GRAPH")
    if graph is None:
        pytest.skip("GRAPH names no graph.json of a large model")
    rows = []
    for devices in ("16", "64"):
        command = [sys.executable, "-c", QUESTION, graph, devices, effort]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        operators, first_cpu_s, first_s, first_at_s, last_s, bound_s, cpu_s, stop = json.loads(output)
        rows.append((f"{operators:,}", devices, effort, f"{first_cpu_s:.2f}", f"{first_s:.2f}", f"{first_at_s:.2f}",
                     f"{last_s:.3f}", f"{bound_s:.3f}", f"{1 - bound_s / last_s:.1%}", f"{cpu_s:.0f}",
                     stop))  # fmt: skip
        assert bound_s <= last_s <= first_at_s
    header = ("operators", "H100", "effort", "first plan, CPU s", "search s", "its s", "answer, s", "bound, s", "gap",
              "CPU s", "ended")  # fmt: skip
    show("First and last plan of a large model", header, rows, "numpy", "numba")
