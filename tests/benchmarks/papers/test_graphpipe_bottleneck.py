"""What the published objective, time per sample of the slowest stage, leaves out: filling and draining the pipeline."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.question.loading import load
from explorer.question.problems import make_problem
from solvers.coarsening.coarsen import Condensed
from solvers.evaluation.evaluate import judge
from solvers.pipelines.costs import SizeCosts, size_costs
from solvers.pipelines.tree.starts import Starts
from solvers.plan.drafts import Draft, DraftStage
from solvers.schedules.realise import realise
from tests.benchmarks.table import show
from tests.benchmarks.test_graph_pipeline import settings

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

DEVICES = 8


def bottleneck_s(draft: Draft, costs: SizeCosts, starts: Starts, micro_batches: int) -> float:
    """Seconds of an iteration for which the slowest stage is busy, adding up gradients included."""
    rules = starts.rules(costs, micro_batches, 1.0)
    worst = 0.0
    for stage in draft.stages:
        r, nodes = int(np.searchsorted(costs.degrees, stage.replicas)), list(stage.operators)
        busy = float(costs.forward_s[r, nodes].sum() + costs.backward_s[r, nodes].sum()) * micro_batches
        gradients = rules.sync_s[r] + rules.sync_s_per_byte[r] * costs.param_bytes[nodes].sum()
        worst = max(worst, busy + (float(gradients) if stage.replicas > 1 else 0.0))
    return worst


def test_least_bottleneck_is_not_least_iteration():
    """The multi-modal transformer on one node of 8 GPUs, mini-batch 128: what the published search takes for every
    number of micro-batches, and data parallelism."""
    problem = make_problem(load("multimodal"), settings("multimodal", DEVICES, 16, None))
    condensed = Condensed(problem, ordered=True)
    starts = Starts(condensed, lambda: None, glue_share=0.0)
    rows = []
    for count in (1, 2, 4, 8, 16, 32):
        costs = size_costs(condensed, problem.mini_batch // count)
        published = starts.published(count)
        assert published is not None
        drafts = [published]
        if DEVICES in costs.degrees:
            drafts.append(Draft((DraftStage(tuple(range(len(costs.param_bytes))), costs.samples, DEVICES),)))
        cells = [
            f"{bottleneck_s(draft, costs, starts, count) * 1e3:.0f} | "
            f"{judge(problem, realise(problem, draft.expanded(condensed.members))).objective_s * 1e3:.0f}"
            for draft in drafts
        ]
        replicas = ", ".join(str(stage.replicas) for stage in published.stages)
        rows.append((count, replicas, *cells, *["- | -"] * (2 - len(cells))))
    show(
        "Multi-modal transformer on 8 GPUs, ms",
        ("micro-batches", "replicas of its stages", "bottleneck", "iteration", "data-parallel, the same",
         "iteration"),
        rows, "numba",
    )  # fmt: skip
