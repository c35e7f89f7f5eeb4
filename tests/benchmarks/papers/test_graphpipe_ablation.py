"""GraphPipe's figure 9: what stages beside each other give alone, and with the larger micro-batches they allow."""

from __future__ import annotations

import os

import pytest

from explorer.question.loading import load
from solvers.formats.workload import Workload
from tests.benchmarks.papers.questions import make_question, wasted_share
from tests.benchmarks.papers.rivals import PUBLISHED, best, published
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

DEVICES = 32
MODELS = os.environ.get("BENCHMARK_MODELS", "candle_uno,dlrm,multimodal").split(",")
SAMPLES = 16
"""A GPU."""
FIXED = (2.0,)
"""Samples a micro-batch; None would be the roofline estimate."""
ROOM = (None, 1.15)
"""Memory of a GPU: 16 GB, or so many times what the sequence needs where it may have any memory."""


def test_parallel_stages_alone_and_with_larger_micro_batches():
    """The published search on both sides, no replicas. "Parallel": the graph at the sequence's micro-batch."""
    rows = []
    for name in MODELS:
        for fixed in FIXED:
            free = None
            for share in ROOM:
                workload = load(name)
                cap = None if share is None or free is None else share * free
                options = {"fixed": fixed, "replicas": False, "memory_bytes": cap}
                problem = make_question(workload, DEVICES, SAMPLES * DEVICES, **options)
                pair = published(problem)
                if pair.sequence.plan is None:
                    continue
                size = pair.sequence.plan.stages[0].micro_batch_size
                free = free or _least_peak(workload, fixed)
                same = best(
                    [make_question(workload, DEVICES, SAMPLES * DEVICES, micro_batch=size, **options)], PUBLISHED
                )
                rows.append(
                    (name, "roofline" if fixed is None else f"{fixed:g}", f"{wasted_share(problem, size):.0%}",
                     "16" if cap is None else f"{cap / 2**30:.2f}", pair.sequence.milliseconds, pair.sequence.shape,
                     same.milliseconds, f"**{pair.sequence.seconds / same.seconds:.2f}**", pair.graph.milliseconds,
                     pair.graph.shape, f"**{pair.gain:.2f}**")
                )  # fmt: skip
                print(*rows[-1], sep=" | ", flush=True)
    show(
        "32 GPUs, published search without replicas, ms an iteration",
        ("model", "fixed cost, samples", "wasted at that b", "GiB a GPU", "sequence", "stages/depth", "parallel",
         "gain", "graph", "stages/depth", "gain"),
        rows, "numba",
    )  # fmt: skip


def _least_peak(workload: Workload, fixed: float | None) -> float:
    """Bytes that the sequence needs with micro-batches of one sample: below that it has no plan."""
    problem = make_question(workload, DEVICES, SAMPLES * DEVICES, fixed=fixed, replicas=False, micro_batch=1)
    return published(problem).sequence.peak_bytes
