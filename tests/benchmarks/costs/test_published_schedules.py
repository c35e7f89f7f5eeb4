"""What schedules gain over 1F1B, and what they hold, beside what Zero Bubble's table 4 measured: the same layers,
devices and micro-batches; nothing is fitted to these. ``pytest --timeout 3000 -m benchmark -s
tests/benchmarks/costs/test_published_schedules.py``; BENCHMARK_ROWS=1.5B,6.2B for some rows.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

import explorer
from solvers.evaluation.evaluate import evaluate
from solvers.pipelines.planners.interleaved import Interleaved
from solvers.plan.plan import Plan
from solvers.plan.result import Result
from solvers.problem.problem import Problem
from solvers.schedules.ordering.arrange import arranged_as
from solvers.schedules.ordering.orders import stage_waits
from solvers.schedules.ordering.patterns import most_held
from solvers.schedules.ordering.zero_bubble import zero_bubble
from tests.benchmarks.costs.published import PUBLISHED, Published, model_of
from tests.benchmarks.costs.test_published_iterations import placed
from tests.benchmarks.table import show

pytestmark = pytest.mark.benchmark

MEASURED = {
    "1.5B": {"1F1B": (11.8, 30), "interleaved": (13.1, 40), "ZB-1p": (12.9, 32), "ZB-2p": (14.5, 59)},
    "6.2B": {"1F1B": (3.50, 39), "interleaved": (4.01, 48), "ZB-1p": (3.88, 42), "ZB-2p": (4.32, 70)},
    "14.6B": {"1F1B": (1.40, 32), "interleaved": (1.54, 39), "ZB-1p": (1.61, 33), "ZB-2p": (1.81, 51)},
    "28.3B": {"1F1B": (0.76, 43), "interleaved": (0.82, 58), "ZB-1p": (0.87, 44), "ZB-2p": (0.99, 74)},
}
"""Samples a second and GPU, and GB of the fullest, with the least micro-batches (Qi et al., ICLR 2024, table 4)."""
ORDERS = ("1F1B", "interleaved", "ZB-1p", "ZB-2p", "ZB-V", "V-Half", "V-Min", "DualPipeV")


def planned(row: Published, graph: explorer.Traced, order: str) -> Result:
    """The published stages, one a device; others, of several a device, of even load."""
    one_each = order in ("1F1B", "ZB-1p", "ZB-2p")
    pipeline = "zero-bubble" if order in ("ZB-1p", "ZB-2p") else order.lower().replace("dualpipev", "dualpipe-v")
    return explorer.plan(
        graph,
        planner=placed(row, graph) if one_each else Interleaved(improve=False, orders=1),
        mini_batch=row.samples,
        micro_batches=row.micro_batches[0],
        pipeline=pipeline,
        precision=row.precision,
        stack=row.stack,
        memory="1TiB",
        **row.cluster,
    )


def within(problem: Problem, plan: Plan, most: int) -> Plan:
    """The zero-bubble order of these stages that is shortest among those with at most so many micro-batches in
    flight."""
    waits = stage_waits(problem.graph, [stage.operators for stage in plan.stages])
    depth = len(plan.stages)
    stages = [replace(stage, in_flight=depth - index) for index, stage in enumerate(plan.stages)]
    actions, runs = zero_bubble(problem, stages)
    for run in runs:
        orders = actions.per_device(run)
        if max(most_held(stages, orders)) <= most:
            return arranged_as(problem, stages, waits, orders, "zero-bubble")
    raise AssertionError


def test_published_schedules() -> None:
    wanted = os.environ.get("BENCHMARK_ROWS", "").split(",")
    rows: list[list[object]] = []
    for row in PUBLISHED:
        if row.source != "Zero Bubble" or (wanted != [""] and row.name not in wanted):
            continue
        model, example = model_of(row)
        graph = explorer.trace(model, example, name=row.name)
        base_s = base_bytes = 0.0
        for order in ORDERS:
            result = planned(row, graph, order)
            assert result.plan is not None, order
            plan = result.plan
            if order.endswith("p"):
                plan = within(result.problem, plan, int(order[-2]) * row.devices)
            metrics = evaluate(result.problem, plan)
            peak = max(metrics.peak_memory_bytes)
            if order == "1F1B":
                base_s, base_bytes = metrics.iteration_s, peak
            rate, gib = MEASURED[row.name].get(order, (None, None))
            first = MEASURED[row.name]["1F1B"]
            rows.append(
                [row.name, order, plan.pipeline, f"{row.samples / metrics.iteration_s / row.devices:.2f}",
                 "" if rate is None else f"{rate:.2f}",
                 f"{base_s / metrics.iteration_s:.2f}", "" if rate is None else f"{rate / first[0]:.2f}",
                 f"{metrics.bubble:.1%}", f"{peak / base_bytes:.2f}", "" if gib is None else f"{gib / first[1]:.2f}",
                 f"{peak / 1e9:.0f}"]
            )  # fmt: skip
            print(rows[-1], flush=True)
    show(
        "Schedules on Zero Bubble's models: estimated beside measured",
        ["model", "schedule", "order", "samples/s a GPU", "measured", "over 1F1B", "measured", "bubble",
         "memory of 1F1B's", "measured", "GB"],
        rows, "torch",
    )  # fmt: skip
