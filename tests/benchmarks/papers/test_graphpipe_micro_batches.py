"""GraphPipe's figure 7, right: the gain where the micro-batch is given, four branches of eight layers on 8 GPUs."""

from __future__ import annotations

import pytest

from tests.benchmarks.papers.drawing import Line, plot, save
from tests.benchmarks.papers.questions import make_question, transformer
from tests.benchmarks.papers.rivals import published, searched
from tests.benchmarks.table import show

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(24 * 3600)]

DEVICES, MINI_BATCH = 8, 128
SIZES = (1, 2, 4, 8, 16, 32)
"""Samples of a micro-batch."""


def test_gain_at_every_micro_batch():
    """Both sides have the same micro-batch, so what a micro-batch wastes cancels: the difference is depth alone.
    Without replicas, which the paper's plans have none of."""
    rows, gains = [], []
    for size in SIZES:
        problem = make_question(transformer(4, 8), DEVICES, MINI_BATCH, replicas=False, micro_batch=size)
        paper, search = published(problem), searched(problem)
        rows.append(
            (size, MINI_BATCH // size, paper.sequence.milliseconds, paper.sequence.shape, paper.graph.milliseconds,
             paper.graph.shape, f"**{paper.gain:.2f}**",
             f"{paper.sequence.in_flight}, {paper.graph.in_flight}",
             f"{paper.sequence.peak_bytes / 2**30:.1f}, {paper.graph.peak_bytes / 2**30:.1f}",
             search.sequence.milliseconds, search.graph.milliseconds, f"**{search.gain:.2f}**")
        )  # fmt: skip
        gains.append((paper.gain, search.gain))
        print(*rows[-1], sep=" | ", flush=True)
    show(
        "Multi-modal transformer on 8 GPUs, mini-batch 128, ms an iteration",
        ("micro-batch", "micro-batches", "published, sequence", "stages/depth", "published, graph", "stages/depth",
         "gain", "in flight, sequence, graph", "peak GiB, sequence, graph", "best sequence", "graph-pipeline", "gain"),
        rows, "numba",
    )  # fmt: skip
    save(
        "graphpipe-micro-batches",
        plot(
            "Four branches of eight layers, 8 GPUs: gain of a graph of stages over a sequence",
            "micro-batch, samples",
            [str(size) for size in SIZES],
            [Line("published search", [one for one, _ in gains]), Line("graph-pipeline", [one for _, one in gains])],
            least=1.0,
        ),
    )
