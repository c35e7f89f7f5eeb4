"""Peaks of memory, predicted and counted: models on one process and in two stages, all storages that operators make
while an iteration runs. Bytes, not times: other work on the machine changes nothing. BENCHMARK_MODELS and
BENCHMARK_PIPELINES choose.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import networkx as nx
import pytest

from explorer.question.loading import load
from explorer.question.problems import make_problem
from explorer.question.settings import Settings
from explorer.runner.bundles.bundle import finish_bundle, write_bundle
from explorer.runner.bundles.outcome import RunStatus
from explorer.runner.bundles.reproduce import RANK_MODULE
from explorer.runner.bundles.request import RunRequest
from explorer.runner.targets.local import LocalTarget
from solvers.evaluation.memory_parts import memory_parts
from solvers.evaluation.simulation import simulate
from solvers.formats.plan_json import write_plan
from solvers.pipelines.planners.interleaved import Interleaved
from solvers.planners.solve import solve
from solvers.problem.graph import OpGraph
from solvers.problem.groups import group_of
from solvers.problem.problem import IN_A_V, Optimizer, Pipeline
from tests.benchmarks.runs.test_predicted_measured import forwards
from tests.benchmarks.table import show
from tests.explorer.runner.plans import placed

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

OWN = tuple(f"tests.benchmarks.runs.run_models:{name}" for name in ("gpt", "multimodal", "rnnlm"))
SMALL = ("bert", "resnet50", "inception", "transformer", "gnmt", "dlrm", "candle_uno", "llama", "moe", "nasnet")
MODELS = os.environ.get("BENCHMARK_MODELS", ",".join((*OWN, *(f"{name}-small" for name in SMALL)))).split(",")
PLANS = ((1, 1, "1f1b"), (1, 4, "1f1b"), (2, 4, "1f1b"), (2, 4, "zero-bubble"), (2, 8, "zb-v"), (2, 8, "v-min"))
"""Ranks, micro-batches, pipeline."""
PIPELINES = os.environ.get("BENCHMARK_PIPELINES", ",".join(pipeline for _, _, pipeline in PLANS)).split(",")
SAMPLES = 16
MIB = 2.0**20


def halves(graph: OpGraph) -> list[int]:
    """Device 0 or 1 of every forward operator: a chain of two stages, cut in the middle, that keeps what shares
    parameters on one device (a layer unrolled over time is one piece)."""
    group, forward = group_of(graph), [o for o, operator in enumerate(graph.operators) if operator.forward_of is None]
    between: nx.DiGraph[int] = nx.DiGraph()
    between.add_nodes_from(int(group[o]) for o in forward)
    between.add_edges_from(
        (int(group[t.producer]), int(group[c])) for t in graph.tensors for c in t.consumers
        if graph.operators[t.producer].forward_of is None and graph.operators[c].forward_of is None
    )  # fmt: skip
    pieces = nx.condensation(between)
    sizes = Counter(pieces.graph["mapping"][int(group[o])] for o in forward)
    first: set[int] = set()
    for piece in nx.lexicographical_topological_sort(pieces, key=lambda p: min(pieces.nodes[p]["members"])):
        if sum(sizes[p] for p in first) + sizes[piece] / 2 > len(forward) / 2:
            break
        first.add(piece)
    return [int(pieces.graph["mapping"][int(group[o])] not in first) for o in forward]


def peaks(model: str, ranks: int, micro_batches: int, pipeline: str, folder: Path) -> list[tuple[float, list[str]]]:
    """Of every rank how far what was predicted is off, of what was measured, and its row. Raises AssertionError where
    a run fails."""
    settings = Settings(devices=ranks, mini_batch=SAMPLES, micro_batches=micro_batches, optimizer=Optimizer.ADAM,
                        pipeline=Pipeline(pipeline))  # fmt: skip
    problem = make_problem(load(model), settings)
    plan = solve(problem, Interleaved(improve=False)).plan if problem.pipeline in IN_A_V else None
    if plan is None:
        plan = placed(problem, halves(problem.graph) if ranks > 1 else [0] * forwards(problem), micro_batches)
    text = write_plan(problem, plan, reference=model)
    request = RunRequest(steps=2, warmup=1, optimizer="adam", allow_model=True)
    bundle = write_bundle(
        folder / f"{model.replace(':', '.')}-{ranks}-{micro_batches}-{pipeline}", text, request, "local"
    )
    target = LocalTarget("local", module=RANK_MODULE)
    outcome = target.run(text, request, ranks, bundle.folder, lambda _: None, lambda: False)
    finish_bundle(bundle, outcome)
    assert outcome.status is RunStatus.DONE, outcome.reason
    simulation = simulate(problem, plan).peak_bytes()
    parts = memory_parts(problem, plan, simulation)
    rows = []
    for rank, device in enumerate(outcome.rank_devices):
        held = max(parts[device].items(), key=lambda part: part[1])[0]
        measured = outcome.peak_bytes[rank]
        off = simulation[device] / measured - 1
        rows.append((off, [
            model.rpartition(":")[2], f"{rank + 1} of {ranks}", str(micro_batches), pipeline,
            f"{simulation[device] / MIB:.2f}", f"{measured / MIB:.2f}", f"{off:+.1%}", held,
        ]))  # fmt: skip
    return rows


def test_peaks(tmp_path: Path) -> None:
    by_model = [
        [rank for each in PLANS if each[2] in PIPELINES for rank in peaks(model, *each, tmp_path)] for model in MODELS
    ]
    near = [[abs(off) <= 0.1 for off, _ in ranks] for ranks in by_model]
    show(
        f"Predicted and measured peaks, {SAMPLES} samples, Adam: {sum(map(sum, near))} of {sum(map(len, near))} ranks"
        f" within 10 %, {sum(map(all, near))} of {len(near)} models in all of theirs",
        ["model", "rank", "micro-batches", "pipeline", "predicted MiB", "measured MiB", "predicted/measured",
         "most of it"], [row for ranks in by_model for _, row in ranks], "torch",
    )  # fmt: skip
