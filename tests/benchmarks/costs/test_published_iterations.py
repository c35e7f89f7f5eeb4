"""Whole iterations that others published beside what each stack is estimated to take for the same layers on the same
devices in the same order: nothing is fitted to these. ``pytest --timeout 3000 -m benchmark -s
tests/benchmarks/costs/test_published_iterations.py``; BENCHMARK_ROWS=1.5B,6.2B for some rows, PICTURE=FILE.svg for the
picture in docs/costs.md.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import explorer
from explorer.costs.interval import Interval, interval
from explorer.costs.shapes import shapes
from solvers.plan.result import Result
from solvers.planners.expert import Expert
from solvers.problem.graph import Phase
from solvers.problem.groups import together
from tests.benchmarks.costs.picture import Point, picture
from tests.benchmarks.costs.published import LAYER, LAYER_FORWARD_S, PUBLISHED, Published, model_of
from tests.benchmarks.table import show

pytestmark = pytest.mark.benchmark

STACKS = ("traced", "eager", "compiled", "fused")


def placed(row: Published, graph: explorer.Traced) -> Expert:
    """The published stages."""
    where, operators = row.placement, graph.graph.operators
    device_of = [-1] * len(operators)
    for o, operator in enumerate(operators):
        parts = operator.module_path.split(".")
        names = [".".join(parts[:depth]) for depth in range(len(parts), 0, -1)]
        stem = operator.name.split("/")[0]
        device_of[o] = next((where[name] for name in (*names, stem) if name in where), 0)
    for group in together(graph.graph):
        device = max(device_of[o] for o in group)
        for o in group:
            device_of[o] = device
    return Expert(tuple(device_of))


def estimated(row: Published, graph: explorer.Traced, stack: str) -> Result:
    """The fastest of the numbers of micro-batches among which the published one was the fastest."""
    replicas = row.source == "Megatron-LM"
    results = [
        explorer.plan(
            graph,
            planner="data-parallel" if replicas else placed(row, graph),
            mini_batch=row.samples,
            micro_batches=micro_batches,
            pipeline="1f1b",
            precision=row.precision,
            recompute=row.recompute,
            max_replicas=row.devices if replicas else 1,
            memory="1TiB",
            stack=stack,
            **row.cluster,
        )
        for micro_batches in row.micro_batches
    ]
    return min(results, key=lambda result: result.objective_s)


def test_published_iterations() -> None:
    wanted = os.environ.get("BENCHMARK_ROWS", "").split(",")
    rows: list[list[object]] = []
    points: list[Point] = []
    for row in PUBLISHED:
        if wanted != [""] and row.name not in wanted:
            continue
        model, example = model_of(row)
        graph = explorer.trace(model, example, name=row.name)
        ratios: dict[str, float] = {}
        within: Interval | None = None
        for stack in STACKS:
            result = estimated(row, graph, stack)
            assert result.plan is not None
            ratios[stack] = result.objective_s / row.seconds
            if stack == row.stack:
                within = interval(result.problem, result.plan, result.objective_s)
        assert within is not None
        low, high = (seconds / row.seconds for seconds in within)
        points.append(Point(f"{row.source} {row.name}", ratios["traced"], ratios[row.stack], low, high))
        shown = [f"**{ratio:.2f}**" if stack == row.stack else f"{ratio:.2f}" for stack, ratio in ratios.items()]
        rows.append([row.source, row.name, row.devices, f"{row.seconds:.2f}", *shown, f"{low:.2f} to {high:.2f}"])
        print(rows[-1], flush=True)
    show(
        "Published iterations: estimated over published seconds, the stack that ran them in bold",
        ["run", "model", "GPUs", "published, s", *STACKS, "interval of its stack"],
        rows,
        "torch",
    )
    if "PICTURE" in os.environ:
        Path(os.environ["PICTURE"]).write_text(picture(points), encoding="utf-8")


def test_published_layer() -> None:
    model, example = model_of(LAYER)
    graph = explorer.trace(model, example, name="layer")
    rows: list[list[object]] = []
    for stack in STACKS:
        problem = explorer.plan(
            graph, planner="single", devices=1, device_kind="A100-80GB", mini_batch=LAYER.samples, micro_batches=1,
            memory="1TiB", precision=LAYER.precision, stack=stack,
        ).problem  # fmt: skip
        seconds = problem.compute.at("A100-80GB", LAYER.samples)
        work = shapes(problem.graph).work
        forward = layer = 0.0
        by_class: dict[str, float] = {}
        for o, operator in enumerate(problem.graph.operators):
            if operator.module_path.startswith("blocks") and operator.phase is not Phase.UPDATE:
                layer += seconds[o]
                forward += seconds[o] * (operator.phase is Phase.FORWARD)
                by_class[work[o]] = by_class.get(work[o], 0.0) + seconds[o]
        parts = (f"{1e3 * by_class[name]:.1f}" for name in ("products", "memory", "elementwise", "norm"))
        rows.append([stack, f"{1e3 * layer:.1f} ({layer / LAYER.seconds:.2f})",
                     f"{1e3 * forward:.1f} ({forward / LAYER_FORWARD_S:.2f})", *parts])  # fmt: skip
    show(
        f"Piper's layer, milliseconds (over the {1e3 * LAYER.seconds:.1f} and {1e3 * LAYER_FORWARD_S:.1f} published)",
        ["stack", "forward and backward", "forward", "products", "memory", "elementwise", "norm"], rows, "torch",
    )  # fmt: skip
