"""The event simulation against the same algorithm in plain Python."""

from __future__ import annotations

import time

import pytest

from explorer.problems import make_problem
from explorer.settings import Settings
from explorer.tracing import trace_demo
from solvers.check import check
from solvers.evaluate import evaluate, judge
from solvers.kernels.list_schedule import list_schedule
from solvers.lowering import lower
from solvers.problem import Objective
from solvers.simulate import arrays_of, simulate
from solvers.solve import solve
from tests.benchmarks.table import cpu_seconds, show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]


def test_compiled_simulation_against_plain_python(monkeypatch):
    rows = []
    workload = trace_demo("gpt")
    for devices, micro_batches in ((4, 16), (8, 128)):
        problem = make_problem(workload, Settings(devices=devices, micro_batches=micro_batches))
        plan = solve(problem, "linear-dp").plan
        for objective in (Objective.ITERATION, Objective.MAKESPAN):
            lowered = lower(problem, plan, objective)
            arrays = arrays_of(lowered)
            compiled = cpu_seconds(lambda a=arrays: list_schedule(*a), 20)
            with monkeypatch.context() as patched:
                for kernel in ("_push_ready", "_pop_ready"):
                    module = f"solvers.kernels.list_schedule.{kernel}"
                    patched.setattr(module, list_schedule.py_func.__globals__[kernel].py_func)
                began = time.process_time()
                list_schedule.py_func(*arrays)
                plain = time.process_time() - began
            rows.append(
                (
                    f"gpt, {devices} devices, {objective}",
                    len(lowered.tasks),
                    f"{compiled * 1e3:.2f}",
                    f"{plain / compiled:.0f}x",
                    f"{cpu_seconds(lambda p=problem, q=plan, o=objective: simulate(p, q, o)) * 1e3:.1f}",
                    f"{cpu_seconds(lambda p=problem, q=plan: judge(p, q)) * 1e3:.1f}",
                    f"{cpu_seconds(lambda p=problem, q=plan: evaluate(p, q)) * 1e3:.1f}",
                    f"{cpu_seconds(lambda p=problem, q=plan: check(p, q)) * 1e3:.1f}",
                )
            )
    show(
        "Simulating a plan of the GPT demo",
        ("plan", "tasks", "events, ms", "plain Python / compiled", "simulate, ms", "judge, ms", "evaluate, ms",
         "check, ms"),
        rows,
        "numba",
    )  # fmt: skip
