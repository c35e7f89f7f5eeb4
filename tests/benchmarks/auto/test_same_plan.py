"""One question, one plan: `auto` alone and beside a busy loop, on every demo and objective.

pytest -m benchmark tests/benchmarks/auto/test_same_plan.py -s
"""

from __future__ import annotations

import multiprocessing
import time

import pytest

from demo_models import MODELS
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.tracing import trace_demo
from solvers.formats.plan_json import write_plan
from solvers.plan.result import Result, StopReason
from solvers.planners.solve import solve
from solvers.problem.problem import Objective, Problem

pytestmark = pytest.mark.benchmark
GUARD_S = 300.0


def spin() -> None:
    while True:
        pass


def timed(problem: Problem) -> tuple[Result, float]:
    began = time.process_time()
    result = solve(problem, time_limit_s=GUARD_S)
    return result, time.process_time() - began


@pytest.mark.parametrize("name", [name for name in MODELS if name.endswith("-small")])
def test_a_busy_machine_finds_the_same_plan(name: str) -> None:
    workload = trace_demo(name)
    for objective in Objective:
        problem = make_problem(workload, Settings(devices=4, objective=objective))
        alone, alone_s = timed(problem)
        busy = multiprocessing.get_context("spawn").Process(target=spin, daemon=True)
        busy.start()
        try:
            beside, _ = timed(problem)
        finally:
            busy.kill()
            busy.join()
        assert alone.stop_reason is beside.stop_reason is StopReason.FINISHED
        assert alone.plan is not None
        assert beside.plan is not None
        first, second = (write_plan(problem, result.plan) for result in (alone, beside) if result.plan is not None)
        print(f"{name} | {objective.value} | {alone.objective_s * 1e3:.4f} ms | {alone_s:.1f} CPU s")
        assert first == second, (name, objective)
