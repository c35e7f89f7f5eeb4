"""Plans of the demos by the shares of the peak alone, and by curves of measured kernels: which of them change.

Printed by ``pytest --timeout 3000 -m benchmark -s tests/benchmarks/costs/test_demo_plans.py``; ``BENCHMARK_MODELS`` has
names of others.
"""

from __future__ import annotations

import os

import pytest

import explorer
from explorer.costs import curves, roofline
from explorer.reviews.difference import difference
from solvers.plan.result import Result
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3000)]

MODELS = ("gpt", "bert", "resnet50", "inception", "transformer", "multimodal", "llama", "moe", "gnmt-small", "dlrm")
HEAD = ("model", "shares alone", "gap", "curves", "gap", "operators that moved", "cuts of the old plan by curves")


def planned(model: str) -> Result:
    traced = explorer.trace(model, dtype="bf16")
    return explorer.plan(
        traced, devices=4, device_kind="A100-80GB", planner="graph-pipeline", effort="quick", time_limit_s=600
    )


def test_plans_of_the_demos_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = []
    for model in os.environ.get("BENCHMARK_MODELS", ",".join(MODELS)).split(","):
        with monkeypatch.context() as patched:
            patched.setattr(roofline, "curves", lambda: curves.Curves({}, {}))
            before = planned(model)
        after = planned(model)
        assert before.plan is not None
        assert after.plan is not None
        compared = difference((after.problem, before.plan), (after.problem, after.plan))
        ms = [f"{1e3 * result.objective_s:.3g} ms" for result in (before, after)]
        gaps = [f"{100 * (1 - result.bound_s / result.objective_s):.1f} %" for result in (before, after)]
        moved = f"{compared.moved_operators} of {compared.operators}"
        old_s = compared.metrics[0].iteration_s
        rows.append((model, ms[0], gaps[0], ms[1], gaps[1], moved, f"{100 * (old_s / after.objective_s - 1):+.1f} %"))
        print(rows[-1], flush=True)
    show("Plans of the demos on 4 A100, by shares alone and by curves", HEAD, rows, "torch")
