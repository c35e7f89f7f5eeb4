"""Graph pipelines against sequential ones: model x devices, all planners judged by the one simulator."""

from __future__ import annotations

import math
import os
import time

import pytest

from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from solvers.contiguous.sequential import sequential_problems
from solvers.pipelines.planners.data_parallel import DataParallel
from solvers.pipelines.planners.gpipe import GPipe
from solvers.pipelines.planners.graph_pipeline import GraphPipeline
from solvers.pipelines.planners.pipedream import PipeDream
from solvers.pipelines.planners.pipedream_iter import PipeDreamIteration
from solvers.pipelines.planners.pipedream_optimizer import PipeDreamOptimizer
from solvers.pipelines.planners.piper import Piper
from solvers.planners.baselines import EqualSplit
from solvers.planners.solve import solve
from solvers.problem.problem import Problem
from solvers.search.planner import Planner
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

PUBLISHED = {
    "multimodal": {4: 1.15, 8: 1.28, 16: 1.30, 32: 1.66},
    "dlrm": {4: 1.20, 8: 1.40, 16: 1.30, 32: 1.47},
    "candle_uno": {4: 0.92, 8: 1.23, 16: 1.23, 32: 1.24},
    "gpt": dict.fromkeys((4, 8, 16, 32), 1.0),
}
"""Throughput relative to PipeDream's plan in GraphPipe (ASPLOS 2025), figure 6, read off its bars; a sequential
transformer gains nothing by construction."""
SAMPLES_PER_DEVICE = {"multimodal": (16,), "gpt": (16,), "dlrm": (16, 128), "candle_uno": (16, 128)}
"""Products of few rows leave a GPU idle, so the models of plain layers are also asked with more."""
ORDERS = 2
"""Linear orders of the sequential plans: branch after branch, and branches in turn."""
LIMIT_S = 120.0


def settings(model: str, devices: int, samples: int, per_node: int | None) -> Settings:
    """V100 of 16 GB (the paper's; 32 GB for GPT, which does not fit otherwise on 4), fp32, Adam, links of 25
    GB/s and 10 us; in nodes of 4, NVLink of 50 GB/s inside (six links of 25 GB/s a GPU, to three others) and
    12.5 GB/s between."""
    return Settings(
        devices=devices,
        device_kind="V100-32GB" if model == "gpt" else "V100-16GB",
        mini_batch=devices * samples,
        max_replicas=0,
        bandwidth_bytes_per_s=25e9 if per_node is None else 50e9,
        devices_per_node=per_node,
        node_bandwidth_bytes_per_s=None if per_node is None else 12.5e9,
    )


def best_s(problems: list[Problem], *planners: Planner) -> float:
    """The best of the planners on any of the problems, seconds; inf where none has a plan."""
    least_s = math.inf
    for problem in problems:
        for planner in planners:
            if planner.unsupported(problem) is None:
                least_s = min(least_s, solve(problem, planner, time_limit_s=LIMIT_S).objective_s)
    return least_s


def cells() -> list[tuple[str, int, int, int | None]]:
    """(model, devices, samples per device, devices per node). BENCHMARK_MODELS and BENCHMARK_DEVICES (comma-
    separated) choose some."""
    models = os.environ.get("BENCHMARK_MODELS", ",".join(PUBLISHED)).split(",")
    sizes = [int(n) for n in os.environ.get("BENCHMARK_DEVICES", "4,8,16,32").split(",")]
    uniform = [(m, n, s, None) for m in models for s in SAMPLES_PER_DEVICE[m] for n in sizes if s == 16 or n in (8, 32)]
    return uniform + [(m, n, 16, 4) for m in models for n in sizes if n in (8, 32)]


def test_gain_over_sequential_pipelines():
    """The iteration with flush. Sequential: every stage waits for the one before it (`sequential_problems`),
    whatever its tensors say; relaxed: the same partition without that."""
    rows = []
    workloads = {}
    for model, devices, samples, per_node in cells():
        workload = workloads.setdefault(model, load(model))
        problem = make_problem(workload, settings(model, devices, samples, per_node))
        sequences = sequential_problems(problem, ORDERS)
        started = time.process_time()
        graph = solve(problem, GraphPipeline(), time_limit_s=LIMIT_S)
        took = time.process_time() - started
        published = best_s([problem], GraphPipeline(mode="paper"))
        sequential = min(best_s(sequences, PipeDreamIteration()), best_s(sequences[:1], GraphPipeline()))
        rivals = {
            "relaxed": best_s([problem], PipeDreamIteration()),
            "pipedream": best_s([problem, *sequences], PipeDream()),  # in sequence its blocks merge all branches
            "pipedream-optimizer": best_s(sequences, PipeDreamOptimizer()),
            "piper": best_s([problem, *sequences[:1]], Piper()),
            "gpipe": best_s(sequences, GPipe()),
            "equal": best_s(sequences, EqualSplit()),
            "data-parallel": best_s([problem], DataParallel()),
        }
        assert graph.objective_s <= published * (1 + 1e-9)
        rows.append(
            (model, devices, "one" if per_node is None else per_node, devices * samples, _ms(graph.objective_s),
             f"{graph.gap:.0%}", _ms(sequential), f"**{sequential / graph.objective_s:.2f}**",
             f"{rivals['pipedream-optimizer'] / graph.objective_s:.2f}", f"{PUBLISHED[model][devices]:.2f}",
             _ms(published), *(_ms(value) for value in rivals.values()), f"{took:.1f}")
        )  # fmt: skip
        print(*rows[-1], flush=True)
    show(
        "Graph pipeline against sequential pipelines, ms per iteration",
        ("model", "GPUs", "a node", "mini-batch", "graph-pipeline", "gap", "best sequential", "gain",
         "over pipedream", "paper, over PipeDream", "published search", "relaxed sequential", "pipedream",
         "pipedream-optimizer", "piper", "gpipe", "equal", "data-parallel", "CPU s"),
        rows, "numpy", "numba",
    )  # fmt: skip


def test_published_searches_alone():
    """What the papers' own searches find: GraphPipe's on the graph and in sequence, and PipeDream's
    optimizer over single operators in sequence, as GraphPipe compares with (its section 7.1)."""
    rows = []
    workloads = {}
    for model, devices, samples, per_node in cells():
        workload = workloads.setdefault(model, load(model))
        problem = make_problem(workload, settings(model, devices, samples, per_node))
        sequences = sequential_problems(problem, ORDERS)
        graph, chain = (best_s(question, GraphPipeline(mode="paper")) for question in ([problem], sequences))
        optimizer = best_s(sequences, PipeDreamOptimizer())
        rows.append(
            (model, devices, "one" if per_node is None else per_node, devices * samples, _ms(graph), _ms(chain),
             _ms(optimizer), f"{min(chain, optimizer) / graph:.2f}")
        )  # fmt: skip
        print(*rows[-1], flush=True)
    header = ("model", "GPUs", "a node", "mini-batch", "published search", "in sequence", "pipedream-optimizer", "gain")
    show("The published searches, ms per iteration", header, rows, "numpy", "numba")


def _ms(seconds: float) -> str:
    return "-" if math.isinf(seconds) else f"{seconds * 1e3:.2f}"
